//! Whether the certificate that vouches for a listener's is sent along, as far as that can be known.

use memchr::memmem;
use rustls_pki_types::CertificateDer;
use webpki::{EndEntityCert, anchor_from_trusted_cert};

use super::WithChain;

/// The object identifier of caIssuers (RFC 5280, section 4.2.2.1), encoded: a certificate of a public authority says with it
/// where its issuer's is to be had, and one of a house's own root does not.
const CA_ISSUERS: [u8; 10] = [0x06, 0x08, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x30, 0x02];

/// Of files whose certificate comes without its issuer's, where clients will hardly have that one themselves: many browsers
/// find it, and programs do not.
pub(super) fn incomplete(chains: &[WithChain]) -> Vec<String> {
    let mut lacking: Vec<_> = chains.iter().filter(|(_, chain)| lacks_issuer(chain)).collect();
    if !lacking.is_empty() {
        let found = rustls_native_certs::load_native_certs();
        let roots: Vec<_> =
            found.certs.iter().filter_map(|root| anchor_from_trusted_cert(root).ok()).collect();
        lacking.retain(|(_, chain)| {
            let issuer = EndEntityCert::try_from(&chain[0]).map(|leaf| leaf.issuer().to_vec());
            issuer.is_ok_and(|issuer| !roots.iter().any(|root| *root.subject == *issuer))
        });
    }
    let told = |(files, _): &&WithChain| {
        format!(
            "{}: the certificate comes without that of its issuer, and programs do not accept it: append the issuer's \
             (authorities call it intermediate, and both together the full chain)",
            files.chain.display()
        )
    };
    lacking.iter().map(told).collect()
}

fn lacks_issuer(chain: &[CertificateDer<'_>]) -> bool {
    let Some((first, others)) = chain.split_first() else { return false };
    let Ok(leaf) = EndEntityCert::try_from(first) else { return false };
    let vouches = |other: &CertificateDer<'_>| {
        EndEntityCert::try_from(other).is_ok_and(|other| other.subject() == leaf.issuer())
    };
    let says_where = || memmem::find(first, &CA_ISSUERS).is_some();
    leaf.issuer() != leaf.subject() && !others.iter().any(vouches) && (!others.is_empty() || says_where())
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, CustomExtension, DnType, IsCa, Issuer, KeyPair};
    use tidegate_config::Certificate;

    use super::*;

    /// A certificate of an authority, and one that it has issued; `public`: which says where the authority's is.
    fn issued(authority: &str, public: bool) -> [CertificateDer<'static>; 2] {
        let (authority_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, authority);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let of_authority = params.self_signed(&authority_key).unwrap().der().clone();
        let issuer = Issuer::new(params, authority_key);
        let mut params = CertificateParams::new(vec!["one.example".to_owned()]).unwrap();
        if public {
            let url = b"http://a.example/1";
            let mut value = vec![0x30, 34, 0x30, 32];
            value.extend(CA_ISSUERS);
            value.extend([0x86, 20]);
            value.extend(url);
            value.extend(b".c");
            params
                .custom_extensions
                .push(CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 1], value));
        }
        [params.signed_by(&key, &issuer).unwrap().der().clone(), of_authority]
    }

    #[test]
    fn an_issuer_that_is_missing_for_sure_is_told() {
        let files = Certificate { chain: "one.pem".into(), key: "one.key".into() };
        let told = |chain: &[&CertificateDer<'static>]| {
            incomplete(&[(files.clone(), chain.iter().map(|certificate| (*certificate).clone()).collect())])
        };
        let [public, authority] = issued("An Authority", true);
        let [private, _] = issued("A House", false);
        let [_, other] = issued("Another", true);
        let said = told(&[&public]);
        assert!(said.len() == 1 && said[0].starts_with("one.pem: the certificate comes without"), "{said:?}");
        assert_eq!(told(&[&public, &other]).len(), 1, "followed by somebody else's");
        assert_eq!(told(&[&private, &other]).len(), 1);
        assert!(told(&[&public, &authority]).is_empty());
        assert!(told(&[&public, &other, &authority]).is_empty(), "clients find it behind others, too");
        assert!(told(&[&private]).is_empty(), "clients may have its issuer");
        assert!(told(&[&authority]).is_empty(), "signed by itself");
        assert!(told(&[]).is_empty());
    }
}
