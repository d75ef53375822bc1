//! The kind of key in a certificate, read from its DER form. A server's certificate is hostile
//! input like anything else that it sends: what cannot be read is `unknown`.

/// The key of a certificate in the words of reports: `RSA 2048`, `ECDSA P-256`, `Ed25519`.
pub(crate) fn key_type(certificate: &[u8]) -> String {
    read_key_type(certificate).unwrap_or_else(|| "unknown".to_owned())
}

fn read_key_type(certificate: &[u8]) -> Option<String> {
    let (certificate, _) = element(certificate, SEQUENCE)?;
    let (mut fields, _) = element(certificate, SEQUENCE)?;
    if let Some((_, rest)) = element(fields, VERSION) {
        fields = rest;
    }
    // The serial number, the algorithm of the signature, issuer, validity, subject.
    for tag in [INTEGER, SEQUENCE, SEQUENCE, SEQUENCE, SEQUENCE] {
        (_, fields) = element(fields, tag)?;
    }
    let (key_info, _) = element(fields, SEQUENCE)?;
    let (algorithm, key) = element(key_info, SEQUENCE)?;
    let (algorithm, parameters) = element(algorithm, OBJECT)?;
    match algorithm {
        RSA => {
            let (key, _) = element(key, BIT_STRING)?;
            let (key, _) = element(key.get(1..)?, SEQUENCE)?;
            let (modulus, _) = element(key, INTEGER)?;
            let zeros = modulus.iter().take_while(|&&byte| byte == 0).count();
            let first = *modulus.get(zeros)?;
            let bits = (modulus.len() - zeros) * 8 - first.leading_zeros() as usize;
            Some(format!("RSA {bits}"))
        }
        EC => {
            let (curve, _) = element(parameters, OBJECT)?;
            let curve = CURVES.iter().find(|(known, _)| *known == curve);
            Some(format!("ECDSA {}", curve.map_or("other", |(_, name)| name)))
        }
        ED25519 => Some("Ed25519".to_owned()),
        _ => None,
    }
}

/// The contents of the element at the front of `bytes`, if it has that tag, and what follows it.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let count = usize::from(first & 0x7f);
        let digits = rest.get(..count).filter(|_| (1..=4).contains(&count))?;
        let length = digits
            .iter()
            .fold(0, |sum, &digit| sum << 8 | usize::from(digit));
        (length, &rest[count..])
    };
    (found == tag && length <= rest.len()).then(|| rest.split_at(length))
}

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OBJECT: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
/// The explicit tag of the optional version.
const VERSION: u8 = 0xa0;
/// 1.2.840.113549.1.1.1
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
/// 1.2.840.10045.2.1
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
/// 1.3.101.112
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
/// 1.2.840.10045.3.1.7, 1.3.132.0.34, 1.3.132.0.35
const CURVES: [(&[u8], &str); 3] = [
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07], "P-256"),
    (&[0x2b, 0x81, 0x04, 0x00, 0x22], "P-384"),
    (&[0x2b, 0x81, 0x04, 0x00, 0x23], "P-521"),
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn certificate(algorithm: &'static rcgen::SignatureAlgorithm) -> Vec<u8> {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    /// The kinds of keys that servers have.
    #[test]
    fn keys_are_told_apart() {
        let check = |algorithm, wanted| assert_eq!(key_type(&certificate(algorithm)), wanted);
        check(&rcgen::PKCS_ECDSA_P256_SHA256, "ECDSA P-256");
        check(&rcgen::PKCS_ECDSA_P384_SHA384, "ECDSA P-384");
        check(&rcgen::PKCS_ED25519, "Ed25519");
        check(&rcgen::PKCS_RSA_SHA256, "RSA 2048");
    }

    proptest! {
        /// Whatever comes, it is read or unknown; a good certificate cut anywhere is unknown.
        #[test]
        fn anything_is_survived(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0_usize..80) {
            prop_assert!(!key_type(&bytes).is_empty());
            let whole = certificate(&rcgen::PKCS_ED25519);
            prop_assert_eq!(key_type(&whole[..cut]), "unknown");
        }
    }
}
