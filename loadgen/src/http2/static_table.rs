//! The fields of responses and requests that everybody knows by number.

use super::hpack::{Field, Name};

/// The fields that everybody knows (RFC 7541, Appendix A), from index 1 on.
pub(super) static STATIC: [Field; 61] = {
    const fn other(name_bytes: u32, value_bytes: u32) -> Field {
        Field {
            name: Name::Other,
            name_bytes,
            value_bytes,
            number: None,
        }
    }
    const fn pseudo(name_bytes: u32, value_bytes: u32) -> Field {
        Field {
            name: Name::Pseudo,
            name_bytes,
            value_bytes,
            number: None,
        }
    }
    const fn status(number: u64) -> Field {
        Field {
            name: Name::Status,
            name_bytes: 7,
            value_bytes: 3,
            number: Some(number),
        }
    }
    [
        pseudo(10, 0), // :authority
        pseudo(7, 3),  // :method GET
        pseudo(7, 4),  // :method POST
        pseudo(5, 1),  // :path /
        pseudo(5, 11), // :path /index.html
        pseudo(7, 4),  // :scheme http
        pseudo(7, 5),  // :scheme https
        status(200),
        status(204),
        status(206),
        status(304),
        status(400),
        status(404),
        status(500),
        other(14, 0),  // accept-charset
        other(15, 13), // accept-encoding gzip, deflate
        other(15, 0),  // accept-language
        other(13, 0),  // accept-ranges
        other(6, 0),   // accept
        other(27, 0),  // access-control-allow-origin
        other(3, 0),   // age
        other(5, 0),   // allow
        other(13, 0),  // authorization
        other(13, 0),  // cache-control
        other(19, 0),  // content-disposition
        other(16, 0),  // content-encoding
        other(16, 0),  // content-language
        Field {
            name: Name::ContentLength,
            name_bytes: 14,
            value_bytes: 0,
            number: None,
        },
        other(16, 0), // content-location
        other(13, 0), // content-range
        other(12, 0), // content-type
        other(6, 0),  // cookie
        other(4, 0),  // date
        other(4, 0),  // etag
        other(6, 0),  // expect
        other(7, 0),  // expires
        other(4, 0),  // from
        other(4, 0),  // host
        other(8, 0),  // if-match
        other(17, 0), // if-modified-since
        other(13, 0), // if-none-match
        other(8, 0),  // if-range
        other(19, 0), // if-unmodified-since
        other(13, 0), // last-modified
        other(4, 0),  // link
        other(8, 0),  // location
        other(12, 0), // max-forwards
        other(18, 0), // proxy-authenticate
        other(19, 0), // proxy-authorization
        other(5, 0),  // range
        other(7, 0),  // referer
        other(7, 0),  // refresh
        other(11, 0), // retry-after
        other(6, 0),  // server
        other(10, 0), // set-cookie
        other(25, 0), // strict-transport-security
        other(17, 0), // transfer-encoding
        other(10, 0), // user-agent
        other(4, 0),  // vary
        other(3, 0),  // via
        other(16, 0), // www-authenticate
    ]
};
