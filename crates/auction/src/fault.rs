//! Why a page could not be given, and the one place where that becomes an HTTP status.

use http::StatusCode;

/// What went wrong with a request.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The request cannot be read or breaks a rule of its form.
    BadRequest(String),
    /// The page needs someone who is signed in.
    SignIn,
    /// There is no such page, item, user, category or region.
    NotFound(&'static str),
    /// The path exists, the method does not fit it; holds what does.
    Method(&'static str),
    /// Well formed, but not possible now: too low a bid, a nickname that is taken.
    Conflict(String),
    /// The body is larger than any form here.
    TooLarge,
    /// The body is not a form.
    NotAForm,
    /// The queue before the workers is full, or the site is stopping.
    Full,
    /// The site's own fault; the text is for its log only.
    Internal(String),
}

impl Fault {
    pub(crate) fn bad(what: String) -> Self {
        Self::BadRequest(what)
    }

    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::BadRequest(_) => StatusCode::BAD_REQUEST,
            Self::SignIn => StatusCode::UNAUTHORIZED,
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::Conflict(_) => StatusCode::CONFLICT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NotAForm => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Full => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// What the visitor is told.
    pub(crate) fn told(&self) -> String {
        match self {
            Self::BadRequest(what) | Self::Conflict(what) => what.clone(),
            Self::SignIn => "Please sign in with your nickname and password.".into(),
            Self::NotFound(what) => format!("There is no such {what}."),
            Self::Method(allowed) => format!("This page takes {allowed}."),
            Self::TooLarge => "The form is too large.".into(),
            Self::NotAForm => "The body must be application/x-www-form-urlencoded.".into(),
            Self::Full => "Too many visitors are waiting.".into(),
            Self::Internal(_) => "Something went wrong here.".into(),
        }
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Internal(error.to_string())
    }
}
