'use strict';
// The published server: Express reads the file from disk for each request.
const express = require('express');
const fs = require('fs');

const app = express();
{log}
app.get('/{file}', (request, response) => {
    fs.readFile('{root}/{file}', (error, data) => {
        if (error) {
            console.trace(error);
            response.sendStatus(500);
        } else {
            response.setHeader('Content-Type', 'text/html');
            response.setHeader('Content-Length', data.length);
            response.end(data);
        }
    });
});

{server}
