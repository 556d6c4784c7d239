//! People: the way in, registering, and what one has bid, bought and sold.

use maud::{Markup, html};
use rusqlite::{OptionalExtension, params};

use super::browse::{Line, table};
use super::{frame, money, row, rows, when};
use crate::Interaction;
use crate::fault::Fault;
use crate::sessions::Person;
use crate::site::Visit;
use crate::store::hash;
use crate::words::REGIONS;

pub(super) fn home() -> Markup {
    frame(
        "Auctions",
        html! {
            p { "Buy and sell, from antiques to stamps." }
            ul .tiles {
                @for step in [Interaction::Browse, Interaction::Sell, Interaction::Register] {
                    li { a href=(step.spec().path) { (step.spec().name) } }
                }
            }
        },
    )
}

pub(super) fn register() -> Markup {
    frame(
        "Register",
        html! {
            form method="post" action=(Interaction::RegisterUser.spec().path) {
                label { "First name " input name="first" maxlength="40" required; }
                label { "Last name " input name="last" maxlength="40" required; }
                label { "Nickname " input name="nickname" maxlength="40" required; }
                label { "Password " input name="password" type="password" maxlength="100" required; }
                label { "E-mail " input name="email" type="email" maxlength="100" required; }
                label {
                    "Region "
                    select name="region" {
                        @for (index, name) in REGIONS.iter().enumerate() { option value=(index + 1) { (name) } }
                    }
                }
                button { "Register" }
            }
        },
    )
}

pub(super) fn register_user(visit: &mut Visit<'_>) -> Result<Markup, Fault> {
    let parameters = &visit.parameters;
    let nickname = parameters.text("nickname", 40)?.to_owned();
    let password = hash(&nickname, parameters.text("password", 100)?);
    let first = parameters.text("first", 40)?.to_owned();
    let last = parameters.text("last", 40)?.to_owned();
    let email = parameters.text("email", 100)?.to_owned();
    let region = parameters.id("region")?;
    let now_s = visit.now_s();
    let id = visit.write(|db| {
        row(db, "region", "SELECT 1 FROM regions WHERE id = ?", [region], |_| Ok(()))?;
        let taken = db
            .prepare_cached("SELECT 1 FROM users WHERE nickname = ?")?
            .query_row([&nickname], |_| Ok(()))
            .optional()?;
        if taken.is_some() {
            return Err(Fault::Conflict(format!("The nickname {nickname} is taken.")));
        }
        db.prepare_cached(
            "INSERT INTO users (nickname, first_name, last_name, email, password, region, rating, joined_s)
             VALUES (?, ?, ?, ?, ?, ?, 0, ?)",
        )?
        .execute(params![nickname, first, last, email, password, region, now_s])?;
        Ok(db.last_insert_rowid())
    })?;
    let person = visit.begin_session(Person { id, nickname });
    Ok(frame(
        "Welcome",
        html! {
            p .done { "Welcome, " (person.nickname) ". You are signed in." }
            p { a href={ "/view-user-info?user=" (person.id) } { "How others see you" } }
        },
    ))
}

pub(super) fn view_user_info(visit: &mut Visit<'_>) -> Result<Markup, Fault> {
    let id = visit.parameters.id("user")?;
    let now_s = visit.now_s();
    let (nickname, region, rating, joined_s) = row(
        visit.db,
        "user",
        "SELECT nickname, regions.name, rating, joined_s FROM users JOIN regions ON regions.id = users.region
         WHERE users.id = ?",
        [id],
        |row| {
            Ok((
                row.get::<_, String>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, i64>(2)?,
                row.get::<_, i64>(3)?,
            ))
        },
    )?;
    Ok(frame(
        &nickname,
        html! {
            p { "From " (region) ", rated " (rating) ", joined " (when(joined_s, now_s)) "." }
            (comments(visit, id, now_s)?)
        },
    ))
}

pub(super) fn about_me(visit: &mut Visit<'_>) -> Result<Markup, Fault> {
    let person = visit.person()?;
    let now_s = visit.now_s();
    let bidding = rows(
        visit,
        "SELECT items.id, name, coalesce(highest_cents, first_cents), items.bids, ends_s
         FROM (SELECT item, max(at_s) AS at_s FROM bids WHERE bidder = ? GROUP BY item ORDER BY 2 DESC LIMIT 50) AS mine
         JOIN items ON items.id = mine.item WHERE ends_s > ? ORDER BY mine.at_s DESC",
        [person.id, now_s],
        Line::read,
    )?;
    let selling = rows(
        visit,
        "SELECT id, name, coalesce(highest_cents, first_cents), bids, ends_s FROM items
         WHERE seller = ? ORDER BY ends_s DESC LIMIT 50",
        [person.id],
        Line::read,
    )?;
    let bought = rows(
        visit,
        "SELECT items.id, items.name, purchases.quantity, purchases.cents, purchases.at_s
         FROM purchases JOIN items ON items.id = purchases.item WHERE buyer = ? ORDER BY purchases.at_s DESC LIMIT 50",
        [person.id],
        |row| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, i64>(2)?,
                row.get::<_, i64>(3)?,
                row.get::<_, i64>(4)?,
            ))
        },
    )?;
    Ok(frame(
        &format!("About {}", person.nickname),
        html! {
            h2 { "Bidding" } (table(&bidding, now_s))
            h2 { "Selling" } (table(&selling, now_s))
            h2 { "Bought" }
            ul {
                @for (id, name, quantity, cents, at_s) in &bought {
                    li {
                        (quantity) " × " a href={ "/view-item?item=" (id) } { (name) }
                        " for " (money(*cents)) ", " (when(*at_s, now_s))
                    }
                }
            }
            (comments(visit, person.id, now_s)?)
        },
    ))
}

fn comments(visit: &Visit<'_>, about: i64, now_s: i64) -> Result<Markup, Fault> {
    let comments = rows(
        visit,
        "SELECT users.nickname, comments.rating, comments.text, comments.at_s
         FROM comments JOIN users ON users.id = comments.author WHERE about = ? ORDER BY comments.at_s DESC LIMIT 50",
        [about],
        |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, row.get::<_, String>(2)?, row.get::<_, i64>(3)?))
        },
    )?;
    Ok(html! {
        h2 { "Comments" }
        @if comments.is_empty() { p { "None yet." } }
        @for (author, rating, text, at_s) in &comments {
            p { b { (author) } " (" (rating) "), " (when(*at_s, now_s)) ": " (text) }
        }
    })
}
