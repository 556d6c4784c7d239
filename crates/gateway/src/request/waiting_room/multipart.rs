//! Forms of type `multipart/form-data`, read as they come: texts are kept, files are read past.
//!
//! Only what a browser writes (HTML, section 4.10.21.8; RFC 7578) is a form here, since a browser is to write the same
//! again:
//!
//! ```text
//! body = 1*( "--" boundary CRLF head CRLF CRLF content CRLF ) "--" boundary "--" [ CRLF ]
//! head = Content-Disposition: form-data; name="NAME"                                           a text
//!      | Content-Disposition: form-data; name="NAME"; filename="FILE" CRLF Content-Type: TYPE  a file
//! ```
//!
//! Names stay as they are written: in them a browser writes `"` and line ends as `%22`, `%0D` and `%0A`, and leaves `%`
//! alone, so that what is decoded or not is sent as it came either way.
//!
//! Memory: what is kept, and of what has come as much as a text may have. Each byte is looked at once. multer, the field's
//! parser, wants a stream of its own to read from, and takes much that no browser writes.

use http::{HeaderMap, header};
use memchr::memmem;

use super::form::Kept;

/// The longest boundary (RFC 2046, section 5.1.1).
const BOUNDARY_MAX: usize = 70;

/// Lines of a part's head that are read; a browser writes two at most.
const LINES_MAX: usize = 4;

const LINE_END: &[u8] = b"\r\n";
const BLANK_LINE: &[u8] = b"\r\n\r\n";

/// The boundary that a request's head names, if its body is of this type.
pub(super) fn boundary(headers: &HeaderMap) -> Option<String> {
    let sent = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let mut parts = sent.split(';').map(str::trim);
    if !parts.next()?.eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let boundary = parts.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.eq_ignore_ascii_case("boundary").then_some(value)
    })?;
    // Of the letters that are allowed in quotes, browsers use none that needs them.
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=?".contains(&byte);
    let is_one = (1..=BOUNDARY_MAX).contains(&boundary.len()) && boundary.bytes().all(is_allowed);
    is_one.then(|| boundary.to_owned())
}

/// What has been read of a form.
#[derive(Debug)]
pub(in crate::request) struct Reader {
    /// Ends a content: a line end, two hyphens and the boundary.
    delimiter: Vec<u8>,
    at: At,
    /// What has come and is not read yet.
    unread: Vec<u8>,
    /// Bytes of it in which what is looked for does not begin.
    searched: usize,
    /// Bytes that may still be read: of files, and of all else.
    files_left: u64,
    bytes_left: usize,
    /// Bytes read that are no file's.
    bytes_read: u64,
    kept: Kept,
}

/// What is to be read next.
#[derive(Debug)]
enum At {
    /// The first delimiter.
    Begin,
    /// What follows a delimiter: a line end, or two hyphens.
    Delimited,
    /// A part's head.
    Head,
    /// The text of the field of this name.
    Text(Vec<u8>),
    /// A file: its field's name and its own, and whether nothing of it has come.
    File { name: Vec<u8>, file: Vec<u8>, is_empty: bool },
    /// Nothing.
    End,
}

/// This is no form, or one that is not kept.
#[derive(Debug)]
pub(super) struct Unkept;

impl Reader {
    /// Of a form with this boundary, of `files_max` bytes of files at most and `bytes_max` besides.
    pub(super) fn new(boundary: &str, bytes_max: usize, files_max: u64) -> Self {
        Self {
            delimiter: format!("\r\n--{boundary}").into_bytes(),
            at: At::Begin,
            // No line ends before the first delimiter.
            unread: LINE_END.to_vec(),
            searched: 0,
            files_left: files_max,
            bytes_left: bytes_max.saturating_add(LINE_END.len()),
            bytes_read: 0,
            kept: Kept::multipart(),
        }
    }

    /// Reads on.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), Unkept> {
        self.unread.extend_from_slice(bytes);
        let mut read = 0;
        while let Some(len) = self.step(read)? {
            read += len;
            self.searched = 0;
        }
        self.unread.drain(..read);
        Ok(())
    }

    /// Bytes that are kept: what was read, but for files, and what is not read yet.
    pub(super) const fn held(&self) -> u64 {
        self.bytes_read + self.unread.len() as u64
    }

    /// The form, if it is whole.
    pub(super) fn finish(self) -> Option<Kept> {
        if matches!(self.at, At::End) { self.kept.whole() } else { None }
    }

    /// Reads the next thing, which begins at `from`: its length; `None`: it has not come.
    fn step(&mut self, from: usize) -> Result<Option<usize>, Unkept> {
        let unread = self.unread.get(from..).unwrap_or_default();
        let delimiter = self.delimiter.len();
        match &mut self.at {
            At::Begin => match unread.get(..delimiter) {
                Some(first) if *first == *self.delimiter => self.goes_on(At::Delimited, delimiter),
                None if self.delimiter.starts_with(unread) => Ok(None),
                Some(_) | None => Err(Unkept),
            },
            At::Delimited => match unread.get(..2) {
                Some(LINE_END) => self.goes_on(At::Head, 2),
                Some(b"--") => self.goes_on(At::End, 2),
                Some(_) => Err(Unkept),
                None => Ok(None),
            },
            At::Head => {
                let Some(end) = find(unread, self.searched, BLANK_LINE) else {
                    return self.waits(from, BLANK_LINE.len());
                };
                let len = end + BLANK_LINE.len();
                let content = unread.get(..len).and_then(content_of).ok_or(Unkept)?;
                self.goes_on(content, len)
            }
            At::Text(name) => {
                let Some(end) = find(unread, self.searched, &self.delimiter) else {
                    return self.waits(from, delimiter);
                };
                self.kept.add_text(name, unread.get(..end).unwrap_or_default()).ok_or(Unkept)?;
                self.goes_on(At::Delimited, end + delimiter)
            }
            At::File { name, file, is_empty } => {
                let found = find(unread, 0, &self.delimiter);
                // The last bytes may be the first ones of a delimiter.
                let len = found.unwrap_or_else(|| (unread.len() + 1).saturating_sub(delimiter));
                self.files_left = self.files_left.checked_sub(len as u64).ok_or(Unkept)?;
                *is_empty &= len == 0;
                if found.is_none() {
                    return Ok((len > 0).then_some(len));
                }
                self.kept.add_file(name, file, *is_empty).ok_or(Unkept)?;
                self.goes_on(At::Delimited, delimiter)?;
                Ok(Some(len + delimiter))
            }
            At::End => match unread.len() {
                0 => Ok(None),
                len => self.goes_on(At::End, len),
            },
        }
    }

    /// `len` bytes are read that are not a file's.
    fn goes_on(&mut self, next: At, len: usize) -> Result<Option<usize>, Unkept> {
        self.bytes_left = self.bytes_left.checked_sub(len).ok_or(Unkept)?;
        self.bytes_read += len as u64;
        self.at = next;
        Ok(Some(len))
    }

    /// What is looked for, so many bytes, has not come: the last ones may be its first ones.
    fn waits(&mut self, from: usize, len: usize) -> Result<Option<usize>, Unkept> {
        let unread = self.unread.len() - from;
        self.searched = (unread + 1).saturating_sub(len);
        if self.searched > self.bytes_left { Err(Unkept) } else { Ok(None) }
    }
}

/// Where something begins that does not begin in the bytes already searched.
fn find(unread: &[u8], searched: usize, wanted: &[u8]) -> Option<usize> {
    Some(searched + memmem::find(unread.get(searched..)?, wanted)?)
}

/// What follows a part's head, the blank line included.
fn content_of(head: &[u8]) -> Option<At> {
    let mut lines = [httparse::EMPTY_HEADER; LINES_MAX];
    let httparse::Status::Complete((_, lines)) = httparse::parse_headers(head, &mut lines).ok()? else {
        return None;
    };
    let (disposition, rest) = lines.split_first()?;
    if !disposition.name.eq_ignore_ascii_case("content-disposition") {
        return None;
    }
    let said = disposition.value.strip_prefix(b"form-data; name=\"")?;
    let (name, said) = said.split_at(memchr::memchr(b'"', said)?);
    let (name, said) = (name.to_vec(), said.get(1..)?);
    match rest {
        [] => said.is_empty().then_some(At::Text(name)),
        [kind] if kind.name.eq_ignore_ascii_case("content-type") => {
            let file = said.strip_prefix(b"; filename=\"")?.strip_suffix(b"\"")?;
            (!file.contains(&b'"')).then(|| At::File { name, file: file.to_vec(), is_empty: true })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::request::waiting_room::language::LANGUAGES;

    const BOUNDARY: &str = "----WebKitFormBoundaryqZ7";

    /// A part: its field, its file's name if it is one, and its content.
    type Part = (String, Option<String>, Vec<u8>);

    fn text(name: &str, value: &str) -> Part {
        (name.to_owned(), None, value.as_bytes().to_vec())
    }

    fn file(name: &str, file: &str, content: &[u8]) -> Part {
        (name.to_owned(), Some(file.to_owned()), content.to_vec())
    }

    /// As a browser writes it.
    fn written(parts: &[Part]) -> Vec<u8> {
        let mut body = Vec::new();
        for (name, file, content) in parts {
            body.extend(format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"").bytes());
            if let Some(file) = file {
                body.extend(format!("; filename=\"{file}\"\r\nContent-Type: image/png").bytes());
            }
            body.extend(b"\r\n\r\n");
            body.extend(content);
            body.extend(b"\r\n");
        }
        body.extend(format!("--{BOUNDARY}--\r\n").bytes());
        body
    }

    /// Read in pieces of these lengths, over and over.
    fn read_in(body: &[u8], lengths: &[usize], bytes_max: usize, files_max: u64) -> Option<Kept> {
        let mut reader = Reader::new(BOUNDARY, bytes_max, files_max);
        let mut rest = body;
        for len in lengths.iter().cycle() {
            let (piece, more) = rest.split_at((*len).clamp(1, rest.len().max(1)).min(rest.len()));
            reader.push(piece).ok()?;
            rest = more;
            if rest.is_empty() {
                break;
            }
        }
        reader.finish()
    }

    fn read(body: &[u8]) -> Option<Kept> {
        read_in(body, &[usize::MAX], 1 << 16, 1 << 20)
    }

    fn page(kept: &Kept) -> String {
        let mut page = String::new();
        kept.write(&mut page, "/", &LANGUAGES[0]);
        page
    }

    #[test]
    fn texts_come_back_as_they_were_and_files_are_asked_for_again() {
        let photo =
            [b"\x89PNG\r\n\r\n--".as_slice(), &[0xFF; 9000], b"\r\n------WebKitFormBoundaryqZ"].concat();
        let body = written(&[
            text("name", "Grüße & mehr"),
            file("photo", "a cat.png", &photo),
            text("note", "a\r\nb\"><script>"),
            text("a%22b", ""),
            file("more[]", "one.txt", b""),
            file("more[]", "<two>.txt", b"2"),
            file("none", "", b""),
        ]);
        let kept = read(&body).expect("a form");
        let page = page(&kept);
        for said in [
            "enctype=\"multipart/form-data\"",
            "<input type=\"hidden\" name=\"name\" value=\"Grüße&#32;&#38;&#32;mehr\">",
            "<label><bdi>a&#32;cat.png</bdi> <input type=\"file\" name=\"photo\" required></label>",
            "value=\"a&#13;&#10;b&#34;&#62;&#60;script&#62;\"",
            "name=\"a&#37;22b\" value=\"\"",
            "<label><bdi>one.txt</bdi>, <bdi>&#60;two&#62;.txt</bdi> <input type=\"file\" name=\"more&#91;&#93;\" multiple required>",
            "<input type=\"file\" name=\"none\" hidden>",
            LANGUAGES[0].form_files,
        ] {
            assert!(page.contains(said), "{said} is not in {page}");
        }
        assert!(!page.contains("<script>") && !page.contains("PNG\r"), "{page}");
        // However it comes.
        for lengths in [&[1][..], &[2], &[7, 1, 30], &[4096], &[9100, 3]] {
            assert_eq!(read_in(&body, lengths, 1 << 16, 1 << 20).as_ref(), Some(&kept), "{lengths:?}");
        }
        let plain = read(&written(&[text("a", "b")])).expect("a form without files");
        assert!(!self::page(&plain).contains(LANGUAGES[0].form_files));
    }

    /// As in a form without files, which texts a page shows for them means nothing.
    #[test]
    fn bytes_of_other_charsets_come_back_as_they_were() {
        let named = |name: &[u8], body: Vec<u8>| {
            let at = memmem::find(&body, b"NAME").unwrap();
            [&body[..at], name, &body[at + 4..]].concat()
        };
        let latin = (String::from("value"), None, b"Ren\xE9".to_vec());
        let body = named(
            b"gr\xF6sse",
            written(&[text("both", "é"), file("photo", "é.png", b"x"), text("NAME", ""), latin]),
        );
        let kept = read(&body).expect("a form");
        let page = page(&kept);
        for said in [
            "accept-charset=\"windows-1252\"",
            "name=\"both\" value=\"Ã©\"",
            "<bdi>Ã©.png</bdi>",
            "name=\"grösse\" value=\"\"",
            "name=\"value\" value=\"René\"",
        ] {
            assert!(page.contains(said), "{said} is not in {page}");
        }
        for lengths in [&[1][..], &[7, 1, 30]] {
            assert_eq!(read_in(&body, lengths, 1 << 16, 1 << 20).as_ref(), Some(&kept), "{lengths:?}");
        }
        let charset = |name: &str| (String::from("_charset_"), None, name.as_bytes().to_vec());
        let other = || (String::from("a"), None, vec![0xFF]);
        assert!(read(&written(&[charset("windows-1252"), other()])).is_some());
        assert_eq!(read(&written(&[charset("UTF-8"), other()])), None);
        assert_eq!(read(&written(&[other(), charset("koi8-r")])), None);
    }

    #[test]
    fn what_no_browser_would_send_again_is_not_kept() {
        let one = "Content-Disposition: form-data; name=\"a\"";
        let part = |head: &str, content: &str| {
            format!("--{BOUNDARY}\r\n{head}\r\n\r\n{content}\r\n--{BOUNDARY}--\r\n")
        };
        assert!(read(part(one, "b").as_bytes()).is_some());
        assert!(read(format!("--{BOUNDARY}--\r\n").as_bytes()).is_some(), "a form without fields");
        for body in [
            String::new(),
            "--".to_owned(),
            "a=b".to_owned(),
            format!("x\r\n{}", part(one, "b")),
            part(one, "b").replace("--\r\n", ""),
            part(one, "b").replace("\r\n\r\n", "\r\n"),
            part(one, "b").replace("\r\n", "\n"),
            part(one, "b").replace(&format!("{BOUNDARY}\r"), &format!("{BOUNDARY} \r")),
            part(one, "line\nend"),
            part(one, "no\0ught"),
            part("", "b"),
            part("Content-Type: text/plain", "b"),
            part("Content-Disposition: attachment; name=\"a\"", "b"),
            part("Content-Disposition: form-data", "b"),
            part("Content-Disposition: form-data; name=a", "b"),
            part("Content-Disposition: form-data; name=\"\"", "b"),
            part("Content-Disposition: form-data; name=\"_charset_\"", "koi8-r"),
            part(&format!("{one}; x=\"y\""), "b"),
            part(&format!("{one}; filename=\"f\""), "b"),
            part(&format!("{one}; filename=\"f\"\r\nContent-Transfer-Encoding: binary"), "b"),
            part(&format!("{one}; filename=\"f\"; size=\"1\"\r\nContent-Type: a/b"), "b"),
            part(&format!("{one}; filename=\"a folder/f\"\r\nContent-Type: a/b"), "b"),
            part(&format!("{one}; filename=\"\"\r\nContent-Type: a/b"), "without a name"),
            part(&format!("{one}\r\nContent-Type: text/plain"), "b"),
        ] {
            assert_eq!(read(body.as_bytes()), None, "{body}");
        }
    }

    #[test]
    fn a_form_has_bounds() {
        let body = written(&[text("a", &"b".repeat(500)), file("f", "g", &[7; 5000])]);
        let besides = body.len() - 5000;
        for lengths in [&[usize::MAX][..], &[1], &[100]] {
            assert!(read_in(&body, lengths, besides, 5000).is_some(), "{lengths:?}");
            assert_eq!(read_in(&body, lengths, besides - 1, 5000), None, "{lengths:?}");
            assert_eq!(read_in(&body, lengths, besides, 4999), None, "{lengths:?}");
        }
        // What never ends is not gathered.
        for begin in ["", "Content-Disposition: form-data; name=\"a\"\r\n\r\n"] {
            let mut reader = Reader::new(BOUNDARY, 1000, 0);
            reader.push(format!("--{BOUNDARY}\r\n{begin}").as_bytes()).expect("so far it is a form");
            let most = (0..2000).find(|_| reader.push(b"xy").is_err()).expect("it is given up");
            assert!(reader.unread.len() <= 1100, "{} bytes after {most}", reader.unread.len());
        }
        let many = |count: usize| written(&(0..count).map(|n| text(&n.to_string(), "")).collect::<Vec<_>>());
        assert!(read_in(&many(500), &[usize::MAX], 1 << 20, 0).is_some());
        assert_eq!(read_in(&many(501), &[usize::MAX], 1 << 20, 0), None);
    }

    #[test]
    fn the_boundary_is_read_from_the_head() {
        for (kind, expected) in [
            ("multipart/form-data; boundary=----x", Some("----x")),
            ("Multipart/Form-Data;charset=utf-8; Boundary=a'()+_,-./:=?", Some("a'()+_,-./:=?")),
            ("multipart/form-data", None),
            ("multipart/form-data; boundary=", None),
            ("multipart/form-data; boundary=a b", None),
            ("multipart/form-data; boundary=\"a\"", None),
            ("multipart/mixed; boundary=a", None),
            ("application/x-www-form-urlencoded; boundary=a", None),
        ] {
            let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(kind))]);
            assert_eq!(boundary(&headers).as_deref(), expected, "{kind}");
        }
        let longest = "b".repeat(BOUNDARY_MAX);
        for (length, is_one) in [(BOUNDARY_MAX, true), (BOUNDARY_MAX + 1, false)] {
            let kind = format!("multipart/form-data; boundary={}", "b".repeat(length));
            let headers =
                HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::try_from(kind).unwrap())]);
            assert_eq!(boundary(&headers) == Some(longest.clone()), is_one, "{length}");
        }
    }

    #[test]
    fn any_form_reads_back_however_it_comes() {
        type Said = (u8, String, Vec<u8>);
        bolero::check!().with_type::<(Vec<Said>, Vec<usize>)>().for_each(|(parts, lengths)| {
            let name = |text: &str| text.replace(|c: char| c.is_control() || c == '"', "");
            let parts: Vec<Part> = parts
                .iter()
                .map(|(kind, said, content)| match kind % 2 {
                    0 => text(&name(said), &String::from_utf8_lossy(content)),
                    _ => file(&name(said), "f", content),
                })
                .collect();
            let body = written(&parts);
            let lengths = if lengths.is_empty() { &[1] } else { lengths.as_slice() };
            let whole = read(&body);
            assert_eq!(read_in(&body, lengths, 1 << 16, 1 << 20), whole);
            // Kept or not, nothing of it is markup.
            if let Some(kept) = whole {
                let page = page(&kept);
                assert_eq!(page.matches("type=\"hidden\"").count(), kept.texts().count());
                let texts = parts.iter().filter(|(_, file, _)| file.is_none());
                assert!(kept.texts().eq(texts.map(|(name, _, value)| (name.as_str(), value.as_slice()))));
            }
        });
    }

    #[test]
    fn any_bytes_are_read_or_not() {
        bolero::check!().with_type::<(Vec<u8>, Vec<usize>)>().for_each(|(bytes, lengths)| {
            let lengths = if lengths.is_empty() { &[1] } else { lengths.as_slice() };
            for begin in ["", "\r\n", "\r\nContent-Disposition: form-data; name=\"a\"", "--"] {
                let body = [b"--", BOUNDARY.as_bytes(), begin.as_bytes(), bytes].concat();
                assert_eq!(read_in(&body, lengths, 1 << 16, 1 << 20), read(&body));
            }
        });
    }
}
