//! Comments on people one has traded with.

use maud::{Markup, html};
use rusqlite::params;

use super::item::Item;
use super::{frame, hidden, row, sign_in};
use crate::Interaction;
use crate::fault::Fault;
use crate::site::Visit;

pub(super) fn put_comment_auth(visit: &mut Visit<'_>) -> Result<Markup, Fault> {
    let (to, nickname, item) = about(visit)?;
    Ok(frame(
        &format!("Sign in to comment on {nickname}"),
        sign_in(Interaction::PutComment, &[("to", to), ("item", item.id)]),
    ))
}

pub(super) fn put_comment(visit: &mut Visit<'_>) -> Result<Markup, Fault> {
    let (to, nickname, item) = about(visit)?;
    let person = visit.person()?;
    Ok(frame(
        &format!("Comment on {nickname}"),
        html! {
            p { "Signed in as " (person.nickname) ", about " (item.name) "." }
            form method="post" action=(Interaction::StoreComment.spec().path) {
                (hidden(&[("to", to), ("item", item.id)]))
                label {
                    "Rating "
                    select name="rating" {
                        option value="1" { "good" }
                        option value="0" { "neither" }
                        option value="-1" { "bad" }
                    }
                }
                label { "Comment " textarea name="comment" maxlength="2000" required {} }
                button { "Post" }
            }
        },
    ))
}

pub(super) fn store_comment(visit: &mut Visit<'_>) -> Result<Markup, Fault> {
    let (to, nickname, item) = about(visit)?;
    let rating = visit.parameters.number("rating", -1, 1)?;
    let text = visit.parameters.text("comment", 2_000)?.to_owned();
    let person = visit.person()?;
    let now_s = visit.now_s();
    visit.write(|db| {
        db.prepare_cached(
            "INSERT INTO comments (author, about, item, rating, text, at_s) VALUES (?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![person.id, to, item.id, rating, text, now_s])?;
        db.prepare_cached("UPDATE users SET rating = rating + ? WHERE id = ?")?
            .execute(params![rating, to])?;
        Ok(())
    })?;
    Ok(frame(
        &format!("Comment on {nickname}"),
        html! {
            p .done { "Your comment is posted." }
            p { a href={ "/view-user-info?user=" (to) } { "All comments on " (nickname) } }
        },
    ))
}

/// Whom the comment is about, and over which item.
fn about(visit: &Visit<'_>) -> Result<(i64, String, Item), Fault> {
    let (to, item) = (visit.parameters.id("to")?, visit.parameters.id("item")?);
    let nickname = row(visit.db, "user", "SELECT nickname FROM users WHERE id = ?", [to], |row| row.get(0))?;
    Ok((to, nickname, Item::find(visit.db, item)?))
}
