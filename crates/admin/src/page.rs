//! The dashboard at `/`: its built files, part of the binary, and the policy that fences it in.
//!
//! `dashboard/` holds the sources; `make dashboard` builds the files embedded here.

use std::{
    hash::{DefaultHasher, Hasher},
    sync::LazyLock,
};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header, request::Parts};
use http_body_util::Full;

/// The page takes everything from here and nothing from elsewhere, and nobody may frame it.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file of the page.
struct File {
    /// Its name below `/`; the page itself has none.
    name: &'static str,
    content_type: &'static str,
    content: &'static [u8],
}

const FILES: &[File] = &[
    File {
        name: "",
        content_type: "text/html; charset=utf-8",
        content: include_bytes!("../../../dashboard/dist/index.html"),
    },
    File {
        name: "app.js",
        content_type: "text/javascript; charset=utf-8",
        content: include_bytes!("../../../dashboard/dist/app.js"),
    },
    File {
        name: "app.css",
        content_type: "text/css; charset=utf-8",
        content: include_bytes!("../../../dashboard/dist/app.css"),
    },
    File {
        name: "licenses.md",
        content_type: "text/plain; charset=utf-8",
        content: include_bytes!("../../../dashboard/dist/licenses.md"),
    },
];

/// What tells one version of a file from another, in the order of [`FILES`].
static TAGS: LazyLock<Vec<String>> = LazyLock::new(|| FILES.iter().map(|file| tag(file.content)).collect());

/// The file of that name, or word that the browser has it already; `None` if there is no such file.
pub(crate) fn file(head: &Parts, name: &str) -> Option<Response<Full<Bytes>>> {
    let position = FILES.iter().position(|file| file.name == name)?;
    let (file, tag) = (&FILES[position], TAGS[position].as_str());
    let known = head.headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let is_known = known.flat_map(|list| list.split(',')).any(|known| known.trim() == tag);
    let mut response = Response::new(Full::from(if is_known { &[][..] } else { file.content }));
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, file.content_type),
        // Kept, but asked for each time: after an upgrade all three files are of one version.
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Ok(tag) = HeaderValue::from_str(tag) {
        headers.insert(header::ETAG, tag);
    }
    Some(response)
}

/// Whether there is a file of that name. The page says nothing about the gateway by itself.
pub(crate) fn is_file(name: &str) -> bool {
    FILES.iter().any(|file| file.name == name)
}

fn tag(content: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(content);
    format!("\"{:016x}\"", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(name: &str, known: Option<&str>) -> Option<Response<Full<Bytes>>> {
        let mut request = http::Request::get("/");
        if let Some(known) = known {
            request = request.header(header::IF_NONE_MATCH, known);
        }
        file(&request.body(()).expect("a request").into_parts().0, name)
    }

    #[test]
    fn a_file_the_browser_has_is_not_sent_again() {
        for File { name, content_type, .. } in FILES {
            let first = ask(name, None).expect("it is there");
            assert_eq!(first.status(), StatusCode::OK);
            assert_eq!(first.headers()[header::CONTENT_TYPE], content_type);
            let tag = first.headers()[header::ETAG].to_str().expect("a tag").to_owned();
            let again = ask(name, Some(&format!("\"other\", {tag}"))).expect("it is there");
            assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
            assert_eq!(ask(name, Some("\"other\"")).expect("it is there").status(), StatusCode::OK);
        }
        assert!(ask("app.map", None).is_none());
    }

    #[test]
    fn the_page_needs_nothing_that_its_policy_forbids() {
        let page = std::str::from_utf8(FILES[0].content).expect("UTF-8");
        for File { name, .. } in &FILES[1..3] {
            assert!(page.contains(&format!("\"./{name}\"")), "the page does not name {name}: {page}");
        }
        for forbidden in ["<style", " style=", "onclick=", "src=\"http", "href=\"http", "<script>"] {
            assert!(!page.contains(forbidden), "{forbidden} in {page}");
        }
        let size: usize = FILES.iter().map(|file| file.content.len()).sum();
        assert!(size < 150 * 1024, "{size} bytes");
    }
}
