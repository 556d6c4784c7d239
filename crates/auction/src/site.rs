//! From a request to its answer: route, parameters, page, cost.

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, SET_COOKIE};
use http::{Method, Response, StatusCode, Uri};
use http_body_util::Full;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::cost::{Costs, burn};
use crate::fault::Fault;
use crate::images::image;
use crate::parameters::Parameters;
use crate::sessions::{Person, Sessions};
use crate::store::{Store, matches};
use crate::{Error, Interaction, Kind, Options, pages};

/// A request, its body read.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) cookie: Option<String>,
    pub(crate) content_type: Option<String>,
    pub(crate) body: Bytes,
}

pub(crate) type Answer = Response<Full<Bytes>>;

/// What the workers share.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) store: Store,
    pub(crate) costs: Costs,
    sessions: Sessions,
}

impl Site {
    pub(crate) fn open(options: &Options) -> Result<Self, Error> {
        Ok(Self { store: Store::open(options)?, costs: Costs::new(options), sessions: Sessions::default() })
    }

    /// Works on a request to its end.
    pub(crate) fn answer(&self, db: &Connection, request: &Request) -> Answer {
        if let Some(name) = request.uri.path().strip_prefix("/images/") {
            return picture(request, name);
        }
        let Some(interaction) = Interaction::at(request.uri.path()) else {
            return sorry(&Fault::NotFound("page"));
        };
        let answer = self.page(db, request, interaction);
        burn(self.costs.get(interaction));
        answer
    }

    fn page(&self, db: &Connection, request: &Request, interaction: Interaction) -> Answer {
        let mut visit =
            Visit { site: self, db, request, parameters: Parameters::default(), new_cookie: None };
        let page = check_method(request, interaction)
            .and_then(|()| visit.read_parameters())
            .and_then(|()| pages::render(interaction, &mut visit));
        let mut answer = match page {
            Ok(markup) => html(StatusCode::OK, markup.into_string()),
            Err(fault) => {
                if let Fault::Internal(what) = &fault {
                    tracing::error!(page = interaction.spec().name, "{what}");
                }
                sorry(&fault)
            }
        };
        if let Some(cookie) = visit.new_cookie.and_then(|cookie| HeaderValue::try_from(cookie).ok()) {
            answer.headers_mut().insert(SET_COOKIE, cookie);
        }
        answer
    }
}

/// What a page has to work with.
#[derive(Debug)]
pub(crate) struct Visit<'a> {
    site: &'a Site,
    pub(crate) db: &'a Connection,
    request: &'a Request,
    pub(crate) parameters: Parameters,
    new_cookie: Option<String>,
}

impl Visit<'_> {
    /// Who is here: by the nickname and password of this request, which begins a session, or by cookie.
    pub(crate) fn person(&mut self) -> Result<Person, Fault> {
        if self.parameters.get("nickname").is_none() {
            let cookie = self.request.cookie.as_deref().ok_or(Fault::SignIn)?;
            return self.site.sessions.find(cookie).ok_or(Fault::SignIn);
        }
        let nickname = self.parameters.text("nickname", 40)?;
        let password = self.parameters.text("password", 100)?;
        let kept = self
            .db
            .prepare_cached("SELECT id, password FROM users WHERE nickname = ?")?
            .query_row([nickname], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?)));
        let (id, kept) = match kept {
            Ok(kept) => kept,
            Err(rusqlite::Error::QueryReturnedNoRows) => return Err(Fault::SignIn),
            Err(error) => return Err(error.into()),
        };
        if !matches(nickname, password, &kept) {
            return Err(Fault::SignIn);
        }
        Ok(self.begin_session(Person { id, nickname: nickname.to_owned() }))
    }

    /// Signs a person in.
    pub(crate) fn begin_session(&mut self, person: Person) -> Person {
        self.new_cookie = self.site.sessions.begin(person.clone());
        person
    }

    /// Seconds since the site opened.
    pub(crate) fn now_s(&self) -> i64 {
        self.site.store.now_s()
    }

    /// Runs `work` in a transaction of its own; a fault undoes it.
    pub(crate) fn write<T>(&self, work: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T, Fault> {
        let _turn = self.site.store.turn_to_write();
        let transaction = Transaction::new_unchecked(self.db, TransactionBehavior::Immediate)?;
        let done = work(&transaction)?;
        transaction.commit()?;
        Ok(done)
    }

    fn read_parameters(&mut self) -> Result<(), Fault> {
        if let Some(query) = self.request.uri.query() {
            self.parameters.read(query)?;
        }
        if self.request.method != Method::POST {
            return Ok(());
        }
        let kind = self.request.content_type.as_deref().unwrap_or("application/x-www-form-urlencoded");
        let kind = kind.split(';').next().unwrap_or("").trim();
        if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            return Err(Fault::NotAForm);
        }
        let text = std::str::from_utf8(&self.request.body);
        self.parameters.read(text.map_err(|_| Fault::bad("the form is not UTF-8".into()))?)
    }
}

/// The page that tells what went wrong.
pub(crate) fn sorry(fault: &Fault) -> Answer {
    let mut answer = html(fault.status(), pages::sorry(fault).into_string());
    match fault {
        Fault::Method(allowed) => {
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
        }
        Fault::Full => {
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        _ => {}
    }
    answer
}

fn check_method(request: &Request, interaction: Interaction) -> Result<(), Fault> {
    let writes = interaction.spec().kind == Kind::Write;
    match request.method {
        Method::POST => Ok(()),
        Method::GET | Method::HEAD if !writes => Ok(()),
        _ if writes => Err(Fault::Method("POST")),
        _ => Err(Fault::Method("GET, HEAD, POST")),
    }
}

fn picture(request: &Request, name: &str) -> Answer {
    if !matches!(request.method, Method::GET | Method::HEAD) {
        return sorry(&Fault::Method("GET, HEAD"));
    }
    let Some(svg) = image(name) else { return sorry(&Fault::NotFound("picture")) };
    let mut answer = Response::new(Full::new(Bytes::from(svg)));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("image/svg+xml"));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
    answer
}

fn html(status: StatusCode, text: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(text)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}
