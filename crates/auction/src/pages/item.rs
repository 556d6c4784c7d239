//! An item, and the bids on it.

use maud::{Markup, html};
use rusqlite::Connection;

use super::{frame, money, row, rows, when};
use crate::fault::Fault;
use crate::site::Visit;

/// What bidding and buying need to know of an item.
pub(super) struct Item {
    pub(super) id: i64,
    pub(super) name: String,
    pub(super) quantity: i64,
    pub(super) first_cents: i64,
    pub(super) highest_cents: Option<i64>,
    pub(super) buy_now_cents: Option<i64>,
    pub(super) ends_s: i64,
}

impl Item {
    pub(super) fn find(db: &Connection, id: i64) -> Result<Self, Fault> {
        row(
            db,
            "item",
            "SELECT id, name, quantity, first_cents, highest_cents, buy_now_cents, ends_s FROM items WHERE id = ?",
            [id],
            |row| {
                Ok(Self {
                    id: row.get(0)?,
                    name: row.get(1)?,
                    quantity: row.get(2)?,
                    first_cents: row.get(3)?,
                    highest_cents: row.get(4)?,
                    buy_now_cents: row.get(5)?,
                    ends_s: row.get(6)?,
                })
            },
        )
    }

    pub(super) fn is_open(&self, now_s: i64) -> bool {
        self.quantity > 0 && self.ends_s > now_s
    }

    /// The least that can be bid now: the first price, or a quarter above the highest bid.
    pub(super) fn least_bid_cents(&self) -> i64 {
        self.highest_cents.map_or(self.first_cents, |highest| highest + 25)
    }

    pub(super) fn title(&self, doing: &str) -> String {
        format!("{doing} {}", self.name)
    }
}

pub(super) fn view_item(visit: &mut Visit<'_>) -> Result<Markup, Fault> {
    let item = Item::find(visit.db, visit.parameters.id("item")?)?;
    let now_s = visit.now_s();
    let (description, seller, nickname, rating, category, reserve) = row(
        visit.db,
        "item",
        "SELECT items.description, users.id, users.nickname, users.rating, items.category, items.reserve_cents
         FROM items JOIN users ON users.id = items.seller WHERE items.id = ?",
        [item.id],
        |row| {
            Ok((
                row.get::<_, String>(0)?,
                row.get::<_, i64>(1)?,
                row.get::<_, String>(2)?,
                row.get::<_, i64>(3)?,
                row.get::<_, i64>(4)?,
                row.get::<_, Option<i64>>(5)?,
            ))
        },
    )?;
    let bids: i64 =
        row(visit.db, "item", "SELECT count(*) FROM bids WHERE item = ?", [item.id], |row| row.get(0))?;
    Ok(frame(
        &item.name,
        html! {
            p { img src={ "/images/category-" (category) ".svg" } width="96" height="96" alt=""; }
            p { (description) }
            table {
                tr { th { "Now at" } td { (money(item.highest_cents.unwrap_or(item.first_cents))) } }
                tr {
                    th { "Bids" }
                    td { a href={ "/view-bid-history?item=" (item.id) } { (bids) } }
                }
                @if let Some(reserve) = reserve {
                    tr {
                        th { "Reserve" }
                        td { @if item.highest_cents >= Some(reserve) { "met" } @else { "not met" } }
                    }
                }
                tr { th { "Quantity" } td { (item.quantity) } }
                tr { th { "Ends" } td { (when(item.ends_s, now_s)) } }
                tr {
                    th { "Seller" }
                    td { a href={ "/view-user-info?user=" (seller) } { (nickname) } " (" (rating) ")" }
                }
            }
            @if item.is_open(now_s) {
                ul .tiles {
                    li { a href={ "/put-bid-auth?item=" (item.id) } { "Bid" } }
                    @if let Some(cents) = item.buy_now_cents {
                        li { a href={ "/buy-now-auth?item=" (item.id) } { "Buy now for " (money(cents)) } }
                    }
                    li { a href={ "/put-comment-auth?to=" (seller) "&item=" (item.id) } { "Comment on the seller" } }
                }
            } @else { p { "This auction is over." } }
        },
    ))
}

pub(super) fn view_bid_history(visit: &mut Visit<'_>) -> Result<Markup, Fault> {
    let item = Item::find(visit.db, visit.parameters.id("item")?)?;
    let now_s = visit.now_s();
    let bids = rows(
        visit,
        "SELECT bids.cents, bids.at_s, users.id, users.nickname FROM bids JOIN users ON users.id = bids.bidder
         WHERE bids.item = ? ORDER BY bids.cents DESC LIMIT 200",
        [item.id],
        |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?, row.get::<_, String>(3)?))
        },
    )?;
    Ok(frame(
        &item.title("Bids on"),
        html! {
            @if bids.is_empty() { p { "No bids yet." } }
            @else {
                table {
                    tr { th .number { "Bid" } th { "By" } th { "When" } }
                    @for (cents, at_s, bidder, nickname) in &bids {
                        tr {
                            td .number { (money(*cents)) }
                            td { a href={ "/view-user-info?user=" (bidder) } { (nickname) } }
                            td { (when(*at_s, now_s)) }
                        }
                    }
                }
            }
            p { a href={ "/view-item?item=" (item.id) } { "Back to the item" } }
        },
    ))
}
