'use strict';
// Reads the file from disk for each request.
const fs = require('fs');

const file = '{root}/{file}';
const answer = (request, response) => {
    if (request.url !== '/{file}') {
        response.writeHead(404);
        response.end();
        return;
    }
    fs.readFile(file, (error, data) => {
        if (error) {
            response.writeHead(500);
            response.end();
            return;
        }
        response.setHeader('Content-Type', 'text/html');
        response.setHeader('Content-Length', data.length);
        response.end(data);
    });
};

{server}
// Node closes a connection that was idle for five seconds.
server.keepAliveTimeout = 65000;
server.listen({port}, '127.0.0.1');
