//! Selling: sign in, choose a category, describe the item.

use maud::{Markup, html};
use rusqlite::params;

use super::{frame, hidden, row, rows, sign_in};
use crate::Interaction;
use crate::fault::Fault;
use crate::site::Visit;

pub(super) fn sell() -> Markup {
    frame("Sell", sign_in(Interaction::SelectCategoryToSellItem, &[]))
}

pub(super) fn select_category_to_sell_item(visit: &mut Visit<'_>) -> Result<Markup, Fault> {
    let person = visit.person()?;
    let categories = rows(visit, "SELECT id, name FROM categories ORDER BY name", [], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
    })?;
    Ok(frame(
        "Choose a category",
        html! {
            p { "Signed in as " (person.nickname) "." }
            ul .tiles {
                @for (id, name) in &categories {
                    li { a href={ (Interaction::SellItemForm.spec().path) "?category=" (id) } { (name) } }
                }
            }
        },
    ))
}

pub(super) fn sell_item_form(visit: &mut Visit<'_>) -> Result<Markup, Fault> {
    let category = visit.parameters.id("category")?;
    Ok(frame(
        "Describe your item",
        html! {
            form method="post" action=(Interaction::RegisterItem.spec().path) {
                (hidden(&[("category", category)]))
                label { "Name " input name="name" maxlength="100" required; }
                label { "Description " textarea name="description" maxlength="8000" required {} }
                label { "First price " input name="price" placeholder="10.00" required; }
                label { "Reserve price " input name="reserve"; }
                label { "Buy now for " input name="buy_now"; }
                label { "Quantity " input name="quantity" type="number" min="1" max="1000" value="1"; }
                label { "Days " input name="days" type="number" min="1" max="30" value="7"; }
                button { "Sell" }
            }
        },
    ))
}

pub(super) fn register_item(visit: &mut Visit<'_>) -> Result<Markup, Fault> {
    let parameters = &visit.parameters;
    let category = parameters.id("category")?;
    let name = parameters.text("name", 100)?.to_owned();
    let description = parameters.text("description", 8_000)?.to_owned();
    let first_cents = parameters.cents("price")?.filter(|cents| *cents > 0);
    let first_cents = first_cents.ok_or_else(|| Fault::bad("price must be above nothing".into()))?;
    let (reserve_cents, buy_now_cents) = (parameters.cents("reserve")?, parameters.cents("buy_now")?);
    let quantity = parameters.number_or("quantity", 1, 1_000, 1)?;
    let days = parameters.number_or("days", 1, 30, 7)?;
    if buy_now_cents.is_some_and(|cents| cents < first_cents) {
        return Err(Fault::bad("buy_now must not be below price".into()));
    }
    let person = visit.person()?;
    let now_s = visit.now_s();
    let id = visit.write(|db| {
        row(db, "category", "SELECT 1 FROM categories WHERE id = ?", [category], |_| Ok(()))?;
        db.prepare_cached(
            "INSERT INTO items (name, description, seller, category, region, quantity, first_cents, reserve_cents,
                                buy_now_cents, bids, highest_cents, starts_s, ends_s)
             SELECT ?1, ?2, id, ?4, region, ?5, ?6, ?7, ?8, 0, NULL, ?9, ?10 FROM users WHERE id = ?3",
        )?
        .execute(params![
            name,
            description,
            person.id,
            category,
            quantity,
            first_cents,
            reserve_cents,
            buy_now_cents,
            now_s,
            now_s + days * 86_400,
        ])?;
        Ok(db.last_insert_rowid())
    })?;
    Ok(frame(
        &name,
        html! {
            p .done { "Your item is on sale." }
            p { a href={ "/view-item?item=" (id) } { "To the item" } }
        },
    ))
}
