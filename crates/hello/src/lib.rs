//! A TLS ClientHello's bytes in; new, resumable or not TLS out.
