//! Bidding and buying.

use maud::{Markup, html};
use rusqlite::params;

use super::item::Item;
use super::{frame, hidden, money, sign_in};
use crate::Interaction;
use crate::fault::Fault;
use crate::site::Visit;

pub(super) fn put_bid_auth(visit: &mut Visit<'_>) -> Result<Markup, Fault> {
    let item = Item::find(visit.db, visit.parameters.id("item")?)?;
    Ok(frame(&item.title("Sign in to bid on"), sign_in(Interaction::PutBid, &[("item", item.id)])))
}

pub(super) fn put_bid(visit: &mut Visit<'_>) -> Result<Markup, Fault> {
    let item = open_item(visit)?;
    let person = visit.person()?;
    let least_cents = item.least_bid_cents();
    Ok(frame(
        &item.title("Bid on"),
        html! {
            p { "Signed in as " (person.nickname) ". The least you can bid is " (money(least_cents)) "." }
            form method="post" action=(Interaction::StoreBid.spec().path) {
                (hidden(&[("item", item.id)]))
                label { "Your bid " input name="bid" value=(amount(least_cents)) required; }
                label { "Quantity " input name="quantity" type="number" min="1" max=(item.quantity) value="1"; }
                button { "Bid" }
            }
        },
    ))
}

pub(super) fn store_bid(visit: &mut Visit<'_>) -> Result<Markup, Fault> {
    let id = visit.parameters.id("item")?;
    let quantity = visit.parameters.number_or("quantity", 1, 1_000, 1)?;
    let asked_cents = visit.parameters.cents("bid")?;
    let person = visit.person()?;
    let now_s = visit.now_s();
    let (item, cents) = visit.write(|db| {
        let item = Item::find(db, id)?;
        check_open(&item, quantity, now_s)?;
        let least_cents = item.least_bid_cents();
        let cents = asked_cents.unwrap_or(least_cents);
        if cents < least_cents {
            return Err(Fault::Conflict(format!("The least you can bid now is {}.", money(least_cents))));
        }
        db.prepare_cached("INSERT INTO bids (item, bidder, quantity, cents, at_s) VALUES (?, ?, ?, ?, ?)")?
            .execute(params![id, person.id, quantity, cents, now_s])?;
        db.prepare_cached("UPDATE items SET bids = bids + 1, highest_cents = ? WHERE id = ?")?
            .execute(params![cents, id])?;
        Ok((item, cents))
    })?;
    Ok(done(&item, &format!("Your bid of {} is the highest.", money(cents))))
}

pub(super) fn buy_now_auth(visit: &mut Visit<'_>) -> Result<Markup, Fault> {
    let item = Item::find(visit.db, visit.parameters.id("item")?)?;
    Ok(frame(&item.title("Sign in to buy"), sign_in(Interaction::BuyNow, &[("item", item.id)])))
}

pub(super) fn buy_now(visit: &mut Visit<'_>) -> Result<Markup, Fault> {
    let item = open_item(visit)?;
    let person = visit.person()?;
    Ok(frame(
        &item.title("Buy"),
        html! {
            @if let Some(cents) = item.buy_now_cents {
                p { "Signed in as " (person.nickname) ". Each costs " (money(cents)) "; there are " (item.quantity) "." }
                form method="post" action=(Interaction::StoreBuyNow.spec().path) {
                    (hidden(&[("item", item.id)]))
                    label { "Quantity " input name="quantity" type="number" min="1" max=(item.quantity) value="1"; }
                    button { "Buy now" }
                }
            } @else { p { "This item can only be bid on." } }
        },
    ))
}

pub(super) fn store_buy_now(visit: &mut Visit<'_>) -> Result<Markup, Fault> {
    let id = visit.parameters.id("item")?;
    let quantity = visit.parameters.number_or("quantity", 1, 1_000, 1)?;
    let person = visit.person()?;
    let now_s = visit.now_s();
    let (item, cents) = visit.write(|db| {
        let item = Item::find(db, id)?;
        check_open(&item, quantity, now_s)?;
        let Some(cents) = item.buy_now_cents else {
            return Err(Fault::Conflict("This item can only be bid on.".into()));
        };
        db.prepare_cached(
            "INSERT INTO purchases (item, buyer, quantity, cents, at_s) VALUES (?, ?, ?, ?, ?)",
        )?
        .execute(params![id, person.id, quantity, cents * quantity, now_s])?;
        db.prepare_cached("UPDATE items SET quantity = quantity - ? WHERE id = ?")?
            .execute(params![quantity, id])?;
        Ok((item, cents * quantity))
    })?;
    Ok(done(&item, &format!("It is yours for {}.", money(cents))))
}

/// The item of this request, while it can be traded.
fn open_item(visit: &Visit<'_>) -> Result<Item, Fault> {
    let item = Item::find(visit.db, visit.parameters.id("item")?)?;
    check_open(&item, 1, visit.now_s())?;
    Ok(item)
}

fn check_open(item: &Item, quantity: i64, now_s: i64) -> Result<(), Fault> {
    if !item.is_open(now_s) {
        return Err(Fault::Conflict("This auction is over.".into()));
    }
    if quantity > item.quantity {
        return Err(Fault::Conflict(format!("There are only {} left.", item.quantity)));
    }
    Ok(())
}

fn done(item: &Item, what: &str) -> Markup {
    frame(
        &item.name,
        html! {
            p .done { (what) }
            p { a href={ "/view-item?item=" (item.id) } { "Back to the item" } }
        },
    )
}

/// An amount as a form takes it.
fn amount(cents: i64) -> String {
    format!("{}.{:02}", cents / 100, cents % 100)
}
