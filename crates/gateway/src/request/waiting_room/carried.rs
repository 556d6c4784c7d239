//! What a request carries of the waiting room: a session pass, the token of a time, a token to pass by; and the request
//! without them.
//!
//! | what | in a field | in a cookie | in the query |
//! |---|---|---|---|
//! | token of a time | `Tidegate-Turn` | `tidegate_turn`, of other classes than `default` `tidegate_turn_CLASS` | `tidegate_turn` |
//! | session pass | `Tidegate-Pass` | `tidegate_pass` | |
//! | token to pass the room by | `Tidegate-Bypass` | | |
//!
//! A promise is of one class, and the tabs of one browser may wait in several: each class has a cookie of its own, so that
//! no answer to one tab takes away what another was promised, in whatever order they arrive.
//!
//! Cookies know no ports, so that under one host name two gateways, or two applications of one, see each other's. Only
//! what is read tells whose it is: all cookies of a name are looked at, and where that name has been taken by another,
//! ours is `NAME~TAG`, of a tag that the application's name makes.

use std::{borrow::Cow, hash::BuildHasher};

use http::{HeaderMap, HeaderName, HeaderValue, Uri, header, uri::PathAndQuery};

/// Field, and by the same name cookie of the default class and parameter, of a token.
pub(in crate::request) const TURN_FIELD: HeaderName = HeaderName::from_static(TURN_FIELD_NAME);
pub(super) const TURN_FIELD_NAME: &str = "tidegate-turn";
pub(in crate::request) const TURN: &str = "tidegate_turn";
/// Field and cookie of a pass.
pub(in crate::request) const PASS_FIELD: HeaderName = HeaderName::from_static("tidegate-pass");
pub(in crate::request) const PASS: &str = "tidegate_pass";

/// The class a script asks about where the token is in a cookie.
const CLASS: &str = "class";

/// The parameter by which it names the application, where its host does not say which it is.
const APPLICATION: &str = "application";

/// Classes in which one browser may have promises at once; a further one takes the place of the first.
const PROMISES_MAX: usize = 16;

/// Field of a token by which programs of partners pass the room by.
pub(super) const BYPASS_FIELD: HeaderName = HeaderName::from_static("tidegate-bypass");

/// Cookies of one kind that are looked at: as many as Chromium keeps of a site, more than others do.
const COOKIES_MAX: usize = 180;

/// Between the name of a cookie and the tag of whose it is: no class has it in its name.
const TAG: u8 = b'~';

/// Texts of one kind, in the order in which they count: cookies that are left of another time, path or domain, or that
/// a neighbour has set for the whole domain, are not to hide the one that holds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Texts<'a> {
    field: Option<&'a [u8]>,
    /// The request's fields, and what its cookies are called.
    cookies: Option<(&'a HeaderMap, &'a str)>,
    in_query: Option<&'a [u8]>,
}

/// A text, and the name of its cookie if it was in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Text<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) cookie: Option<&'a str>,
}

/// Whose a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// It was signed here, for this.
    Ours,
    /// Somebody else's, as far as can be told.
    Anothers,
    /// No token at all.
    Nobodys,
}

/// What a request carries, as it came.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Carried<'a> {
    pub(super) passes: Texts<'a>,
    pub(super) turns: Texts<'a>,
    pub(super) bypass: Option<&'a [u8]>,
    /// Whether the query has the token's parameter.
    pub(super) in_query: bool,
}

impl<'a> Texts<'a> {
    pub(super) fn iter(self) -> impl Iterator<Item = Text<'a>> {
        let bare = |bytes| Text { bytes, cookie: None };
        let cookies = self.cookies.into_iter().flat_map(|(headers, name)| {
            let lines = headers.get_all(header::COOKIE).iter();
            lines.flat_map(move |line| pairs(line.as_bytes()).filter_map(move |pair| called(pair, name)))
        });
        self.field.map(bare).into_iter().chain(cookies.take(COOKIES_MAX)).chain(self.in_query.map(bare))
    }

    pub(super) fn is_empty(self) -> bool {
        self.iter().next().is_none()
    }

    /// The cookie that is ours to set or to take away, if there is one, of those that are called `name`.
    pub(super) fn ours(self, whose: impl Fn(&[u8]) -> Whose) -> Option<&'a str> {
        let with =
            |wanted: Whose| self.iter().find_map(|text| text.cookie.filter(|_| whose(text.bytes) == wanted));
        with(Whose::Ours).or_else(|| with(Whose::Nobodys))
    }

    /// The cookie in which ours goes: where it was, or else one that holds nobody else's.
    pub(super) fn cookie(
        self,
        name: Cow<'static, str>,
        application: &str,
        whose: impl Fn(&[u8]) -> Whose,
    ) -> Cow<'static, str> {
        if self.iter().all(|text| text.cookie.is_none()) {
            return name;
        }
        match self.ours(whose) {
            Some(ours) if *ours == *name => name,
            Some(ours) => Cow::Owned(ours.to_owned()),
            None if self.iter().any(|text| text.cookie == Some(&*name)) => {
                // The same in every process, so that it is found again.
                let tag = foldhash::quality::FixedState::with_seed(0).hash_one(application);
                Cow::Owned(format!("{name}{}{:08x}", char::from(TAG), tag & 0xffff_ffff))
            }
            None => name,
        }
    }
}

impl<'a> Carried<'a> {
    /// Of a request of a class whose tokens are in the cookie `turn_cookie`. Fields go before cookies and those before the
    /// query: who writes a field means it.
    pub(super) fn of(uri: &'a Uri, headers: &'a HeaderMap, turn_cookie: &'a str) -> Self {
        let field = |name: &HeaderName| headers.get(name).map(HeaderValue::as_bytes);
        let parameter = uri.query().and_then(|query| parameter(query, TURN)).map(str::as_bytes);
        let cookies = |name| Some((headers, name));
        // An empty one is of a check that has no token to send along.
        let in_query = parameter.filter(|text| !text.is_empty());
        Self {
            passes: Texts { field: field(&PASS_FIELD), cookies: cookies(PASS), in_query: None },
            turns: Texts { field: field(&TURN_FIELD), cookies: cookies(turn_cookie), in_query },
            bypass: field(&BYPASS_FIELD),
            in_query: parameter.is_some(),
        }
    }

    /// The request's target without a token, if it has one.
    pub(super) fn stripped(&self, uri: &Uri) -> Option<Uri> {
        if self.in_query { without_turn(uri) } else { None }
    }
}

/// The cookie of promises of a class.
pub(super) fn turn_cookie(class: &str) -> Cow<'static, str> {
    match class {
        "default" => Cow::Borrowed(TURN),
        class => Cow::Owned(format!("{TURN}_{class}")),
    }
}

/// A cookie, if it is called `name`, whosever it is.
fn called<'a>(pair: &'a [u8], name: &str) -> Option<Text<'a>> {
    let equals = pair.iter().position(|byte| *byte == b'=')?;
    let (cookie, value) = pair.split_at(equals);
    let cookie = str::from_utf8(cookie.trim_ascii()).ok()?;
    let bytes = value.get(1..).unwrap_or_default().trim_ascii();
    let is_so = *without_tag(cookie.as_bytes()) == *name.as_bytes();
    is_so.then_some(Text { bytes, cookie: Some(cookie) })
}

/// A cookie's name, whosever it is. What is written of it into fields of ours is what a tag may be.
fn without_tag(cookie: &[u8]) -> &[u8] {
    let Some(at) = cookie.iter().position(|byte| *byte == TAG) else { return cookie };
    let (name, tag) = cookie.split_at(at);
    let tag = tag.get(1..).unwrap_or_default();
    if tag.len() == 8 && tag.iter().all(u8::is_ascii_hexdigit) { name } else { cookie }
}

/// The class whose promises are in a cookie of this name; `None`: it is none of these cookies.
fn class_of(cookie: &[u8]) -> Option<&[u8]> {
    match without_tag(cookie).strip_prefix(TURN.as_bytes())? {
        b"" => Some(b"default"),
        rest => rest.strip_prefix(b"_"),
    }
}

/// The cookie that has to go where one more promise would be too many for a browser: its first of another class.
pub(super) fn displaced(headers: &HeaderMap, turn_cookie: &str) -> Option<String> {
    let lines = headers.get_all(header::COOKIE).iter();
    let names = lines.flat_map(|line| pairs(line.as_bytes())).map(name_of);
    // Names go into a field of ours, whoever made them up.
    let is_class = |name: &str| tidegate_config::is_class_name(name);
    let ours = names
        .filter(|name| class_of(name).and_then(|class| str::from_utf8(class).ok()).is_some_and(is_class));
    let mut others = ours.filter_map(|name| str::from_utf8(name).ok()).filter(|name| *name != turn_cookie);
    let first = others.next()?.to_owned();
    (others.count() + 1 >= PROMISES_MAX).then_some(first)
}

/// Where a script asks how things stand, for a promise that is in a cookie of that class; with the application where
/// its host does not say which it is.
pub(super) fn ask_about(path: &str, application: Option<&str>, class: &str) -> String {
    let of_class = Some((CLASS, class)).filter(|(_, class)| *class != "default");
    let parameters = application.map(|name| (APPLICATION, name)).into_iter().chain(of_class);
    let mut target = path.to_owned();
    for (at, (name, value)) in parameters.enumerate() {
        target.push(if at == 0 { '?' } else { '&' });
        target.extend([name, "=", value]);
    }
    target
}

/// The application of which a script asks how things stand, where it names one.
pub(super) fn asked_of(uri: &Uri) -> Option<&str> {
    parameter(uri.query()?, APPLICATION)
}

/// The class of which a script asks how things stand.
pub(super) fn asked_about(uri: &Uri) -> &str {
    uri.query().and_then(|query| parameter(query, CLASS)).unwrap_or("default")
}

/// A parameter in a query.
fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

/// A target without the token's parameter, if it has that.
pub(super) fn without_turn(uri: &Uri) -> Option<Uri> {
    let target = joined_without_turn(uri.path(), uri.query()?)?;
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(target).ok()?);
    Uri::from_parts(parts).ok()
}

/// The same of an address as text.
pub(in crate::request) fn text_without_turn(address: &str) -> Option<String> {
    let (path, query) = address.split_once('?')?;
    joined_without_turn(path, query)
}

fn joined_without_turn(path: &str, query: &str) -> Option<String> {
    parameter(query, TURN)?;
    let is_ours = |pair: &&str| pair.strip_prefix(TURN).is_some_and(|rest| rest.starts_with('='));
    let rest: Vec<&str> = query.split('&').filter(|pair| !is_ours(pair)).collect();
    Some(match rest.is_empty() {
        true => path.to_owned(),
        false => format!("{path}?{}", rest.join("&")),
    })
}

/// Takes out of a request's fields what is for us alone.
pub(super) fn strip(headers: &mut HeaderMap) {
    headers.remove(TURN_FIELD);
    headers.remove(PASS_FIELD);
    headers.remove(BYPASS_FIELD);
    // The page he comes from may have been entered with the token in its address.
    let page = headers.get(header::REFERER).and_then(|page| text_without_turn(page.to_str().ok()?));
    if let Some(Ok(page)) = page.map(HeaderValue::try_from) {
        headers.insert(header::REFERER, page);
    }
    if !has_cookie(headers) {
        return;
    }
    let lines: Vec<HeaderValue> = headers.get_all(header::COOKIE).iter().cloned().collect();
    headers.remove(header::COOKIE);
    for line in lines {
        let kept = cookies_of_others(line.as_bytes());
        if !kept.is_empty()
            && let Ok(kept) = HeaderValue::from_bytes(&kept)
        {
            headers.append(header::COOKIE, kept);
        }
    }
}

/// Whether a request has a cookie that is called as one of ours, of any class.
pub(super) fn has_cookie(headers: &HeaderMap) -> bool {
    headers.get_all(header::COOKIE).iter().any(|line| pairs(line.as_bytes()).any(is_ours))
}

fn cookies_of_others(line: &[u8]) -> Vec<u8> {
    let mut kept: Vec<u8> = Vec::with_capacity(line.len());
    for pair in pairs(line).filter(|pair| !pair.is_empty() && !is_ours(pair)) {
        if !kept.is_empty() {
            kept.extend_from_slice(b"; ");
        }
        kept.extend_from_slice(pair);
    }
    kept
}

fn pairs(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let line = rest?;
        let (pair, after) = line.split_at(memchr::memchr(b';', line).unwrap_or(line.len()));
        rest = after.get(1..);
        Some(pair.trim_ascii())
    })
}

fn name_of(pair: &[u8]) -> &[u8] {
    pair.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii()
}

fn is_ours(pair: &[u8]) -> bool {
    let name = name_of(pair);
    *without_tag(name) == *PASS.as_bytes() || class_of(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let field = |(name, value): &(&'static str, &'static str)| {
            (name.parse::<HeaderName>().unwrap(), HeaderValue::from_static(value))
        };
        fields.iter().map(field).collect()
    }

    fn all(texts: Texts<'_>) -> Vec<&str> {
        texts.iter().map(|text| str::from_utf8(text.bytes).unwrap()).collect()
    }

    #[test]
    fn tokens_are_found_wherever_they_are() {
        let uri: Uri = "/a?x=1&tidegate_turn=Q".parse().unwrap();
        let fields = headers(&[("cookie", "a=b; tidegate_turn=C; tidegate_pass=P"), ("tidegate-turn", "F")]);
        let carried = Carried::of(&uri, &fields, TURN);
        assert_eq!(all(carried.turns), ["F", "C", "Q"]);
        assert_eq!(all(carried.passes), ["P"]);
        let fields = headers(&[("cookie", "tidegate_turn=C")]);
        let carried = Carried::of(&uri, &fields, TURN);
        assert_eq!(all(carried.turns), ["C", "Q"]);
        assert!(all(carried.passes).is_empty() && carried.in_query);
        assert_eq!(all(Carried::of(&uri, &HeaderMap::new(), TURN).turns), ["Q"]);
        // More than a browser has hide the query's no more than few do.
        let many = format!("tidegate_turn=1; {}", "tidegate_turn=2; ".repeat(COOKIES_MAX));
        let many = HeaderMap::from_iter([(header::COOKIE, HeaderValue::try_from(many).unwrap())]);
        let turns = all(Carried::of(&uri, &many, TURN).turns);
        assert_eq!((turns.len(), turns[0], turns[COOKIES_MAX]), (COOKIES_MAX + 1, "1", "Q"));
        let other: Uri = "/a?tidegate_turns=1&xtidegate_turn=2".parse().unwrap();
        assert!(all(Carried::of(&other, &HeaderMap::new(), TURN).turns).is_empty());
    }

    #[test]
    fn promises_of_each_class_are_in_a_cookie_of_its_own() {
        let uri = Uri::from_static("/");
        let fields = headers(&[("cookie", "tidegate_turn_search=S; tidegate_turn=D")]);
        for (class, token) in
            [("default", Some(&b"D"[..])), ("search", Some(b"S")), ("sear", None), ("", None)]
        {
            let name = turn_cookie(class);
            let turns = Carried::of(&uri, &fields, &name).turns;
            assert_eq!(turns.iter().next().map(|text| text.bytes), token, "{class}");
            let ask: Uri = ask_about("/ask", None, class).parse().unwrap();
            assert_eq!(asked_about(&ask), class);
        }
        assert_eq!(asked_about(&"/ask?x=1&class=a.b-c_d".parse().unwrap()), "a.b-c_d");
    }

    #[test]
    fn ours_goes_where_it_is_and_never_over_anothers() {
        let uri = Uri::from_static("/");
        let whose = |bytes: &[u8]| match bytes.first() {
            Some(b'O') => Whose::Ours,
            Some(b'A') => Whose::Anothers,
            _ => Whose::Nobodys,
        };
        let tagged = {
            let fields = headers(&[("cookie", "tidegate_turn=A")]);
            let turns = Carried::of(&uri, &fields, TURN).turns;
            assert_eq!(turns.ours(whose), None);
            turns.cookie(Cow::Borrowed(TURN), "shop", whose).into_owned()
        };
        assert_eq!((without_tag(tagged.as_bytes()), tagged.len()), (TURN.as_bytes(), TURN.len() + 9));
        for (cookies, goes_to, is_there) in [
            ("a=b".to_owned(), TURN, false),
            ("tidegate_turn=O".to_owned(), TURN, true),
            ("tidegate_turn=?".to_owned(), TURN, true),
            ("tidegate_turn=A; tidegate_turn~0123abcd=O".to_owned(), "tidegate_turn~0123abcd", true),
            ("tidegate_turn~0123abcd=A".to_owned(), TURN, false),
            (format!("tidegate_turn=A; {tagged}=A"), &tagged, false),
            // No name that we give.
            ("tidegate_turn~=O; tidegate_turn~x=O; tidegate_turn_a=O".to_owned(), TURN, false),
        ] {
            let fields = HeaderMap::from_iter([(header::COOKIE, HeaderValue::try_from(&cookies).unwrap())]);
            let turns = Carried::of(&uri, &fields, TURN).turns;
            assert_eq!(turns.cookie(Cow::Borrowed(TURN), "shop", whose), goes_to, "{cookies}");
            assert_eq!(turns.ours(whose), is_there.then_some(goes_to), "{cookies}");
        }
        let of_class = headers(&[("cookie", "tidegate_turn_search~0123abcd=O; tidegate_pass~0123abcd=P")]);
        let carried = Carried::of(&uri, &of_class, "tidegate_turn_search");
        assert_eq!((all(carried.turns), all(carried.passes)), (vec!["O"], vec!["P"]));
        let mut stripped = of_class.clone();
        strip(&mut stripped);
        assert!(stripped.is_empty(), "{stripped:?}");
    }

    #[test]
    fn a_browser_keeps_so_many_promises_and_no_more() {
        let many = |count: usize| {
            let names: Vec<String> =
                (0..count).map(|class| format!("a=b; tidegate_turn_{class}=T")).collect();
            HeaderMap::from_iter([(header::COOKIE, HeaderValue::try_from(names.join("; ")).unwrap())])
        };
        let fits = many(PROMISES_MAX - 1);
        assert_eq!(displaced(&fits, "tidegate_turn"), None);
        let full = many(PROMISES_MAX);
        assert_eq!(
            displaced(&full, "tidegate_turn").as_deref(),
            Some("tidegate_turn_0"),
            "the oldest comes first"
        );
        assert_eq!(displaced(&full, "tidegate_turn_0"), None, "it takes its own place");
        let more = many(PROMISES_MAX + 1);
        assert_eq!(displaced(&more, "tidegate_turn_0").as_deref(), Some("tidegate_turn_1"));
        // What no class is called is not written into a field of ours.
        let made_up =
            "tidegate_turn_\t=x; ".repeat(40) + "tidegate_turn_\u{e9}=x; tidegate_turns=1; tidegate_turn_=1";
        let made_up =
            HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_bytes(made_up.as_bytes()).unwrap())]);
        assert_eq!(displaced(&made_up, "tidegate_turn"), None);
    }

    #[test]
    fn the_application_sees_nothing_of_them() {
        for (uri, without) in [
            ("/a?tidegate_turn=Q", "/a"),
            ("/a?x=1&tidegate_turn=Q&y=%20", "/a?x=1&y=%20"),
            ("http://h.example/a?tidegate_turn=Q&tidegate_turn=R&z", "http://h.example/a?z"),
        ] {
            let uri: Uri = uri.parse().unwrap();
            assert_eq!(without_turn(&uri).unwrap().to_string(), without);
        }
        assert_eq!(without_turn(&"/a?x=1".parse().unwrap()), None);
        assert_eq!(without_turn(&"/a".parse().unwrap()), None);

        let mut fields = headers(&[
            ("cookie", "tidegate_turn=C; a=b;tidegate_pass=P; c=d=e; "),
            ("cookie", "tidegate_pass=P; tidegate_turn_search=S"),
            ("cookie", "z=1"),
            ("tidegate-turn", "F"),
            ("tidegate-pass", "F"),
            ("tidegate-bypass", "F"),
            ("referer", "https://shop.example/a?x=1&tidegate_turn=Q"),
        ]);
        strip(&mut fields);
        assert_eq!(fields.remove("referer").unwrap(), "https://shop.example/a?x=1");
        let cookies: Vec<_> =
            fields.get_all(header::COOKIE).iter().map(|line| line.to_str().unwrap()).collect();
        assert_eq!((cookies, fields.len()), (vec!["a=b; c=d=e", "z=1"], 2));
        let mut untouched = headers(&[("cookie", "a=b;  c=d"), ("referer", "https://shop.example/a?")]);
        strip(&mut untouched);
        assert_eq!(untouched[header::COOKIE], "a=b;  c=d");
        assert_eq!(untouched[header::REFERER], "https://shop.example/a?");
    }

    #[test]
    fn any_bytes_are_stripped() {
        bolero::check!().for_each(|bytes: &[u8]| {
            if let Ok(value) = HeaderValue::from_bytes(bytes) {
                let mut fields = HeaderMap::from_iter([(header::COOKIE, value)]);
                strip(&mut fields);
                let uri = Uri::from_static("/");
                let carried = Carried::of(&uri, &fields, TURN);
                assert!(carried.passes.is_empty() && carried.turns.is_empty());
            }
        });
    }
}
