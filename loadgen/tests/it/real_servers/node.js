// A server of Node.js: HTTP/1.1 and HTTP/2, each in clear and over TLS. Usage: node FILE FOLDER CLEAR TLS H2C
'use strict';
const fs = require('node:fs');
const http = require('node:http');
const http2 = require('node:http2');
const path = require('node:path');

const [folder, clear, tls, h2c] = process.argv.slice(2);
const log = fs.openSync(path.join(folder, 'access'), 'a');

// One line per request, written when the last byte of its response was handed on.
function answer(request, response) {
  response.on('finish', () => fs.writeSync(log, `${request.method} ${request.url}\n`));
  response.end(fs.readFileSync(path.join(folder, path.basename(request.url))));
}

const secrets = {
  allowHTTP1: true,
  cert: fs.readFileSync(path.join(folder, 'cert.pem')),
  key: fs.readFileSync(path.join(folder, 'key.pem')),
};
http.createServer(answer).listen(Number(clear), '127.0.0.1');
http2.createSecureServer(secrets, answer).listen(Number(tls), '127.0.0.1');
http2.createServer(answer).listen(Number(h2c), '127.0.0.1');
