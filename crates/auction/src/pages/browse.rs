//! Browsing: by category, by region, and both.

use maud::{Markup, html};
use rusqlite::{Row, params};

use super::{frame, money, row, rows, when};
use crate::Interaction;
use crate::fault::Fault;
use crate::site::Visit;

const PAGE_LENGTH: i64 = 20;

pub(super) fn browse() -> Markup {
    frame(
        "Browse",
        html! {
            ul .tiles {
                li { a href=(Interaction::BrowseCategories.spec().path) { "All categories" } }
                li { a href=(Interaction::BrowseRegions.spec().path) { "All regions" } }
            }
        },
    )
}

pub(super) fn browse_categories(visit: &mut Visit<'_>) -> Result<Markup, Fault> {
    let categories = rows(
        visit,
        "SELECT id, name, (SELECT count(*) FROM items WHERE category = categories.id AND ends_s > ?)
         FROM categories ORDER BY name",
        [visit.now_s()],
        named_count,
    )?;
    let path = Interaction::SearchItemsInCategory.spec().path;
    Ok(frame("Categories", tiles(&categories, |id| format!("{path}?category={id}"), true)))
}

pub(super) fn browse_regions(visit: &mut Visit<'_>) -> Result<Markup, Fault> {
    let regions = rows(
        visit,
        "SELECT id, name, (SELECT count(*) FROM items WHERE region = regions.id) FROM regions ORDER BY name",
        [],
        named_count,
    )?;
    let path = Interaction::BrowseCategoriesInRegion.spec().path;
    Ok(frame("Regions", tiles(&regions, |id| format!("{path}?region={id}"), false)))
}

pub(super) fn browse_categories_in_region(visit: &mut Visit<'_>) -> Result<Markup, Fault> {
    let region = visit.parameters.id("region")?;
    let name = name_of(visit, "region", region)?;
    let categories = rows(
        visit,
        "SELECT id, name, (SELECT count(*) FROM items
                           WHERE region = ?1 AND category = categories.id AND ends_s > ?2)
         FROM categories ORDER BY name",
        [region, visit.now_s()],
        named_count,
    )?;
    let path = Interaction::SearchItemsInRegion.spec().path;
    let link = |id| format!("{path}?region={region}&category={id}");
    Ok(frame(&format!("Categories in {name}"), tiles(&categories, link, true)))
}

pub(super) fn search_items_in_category(visit: &mut Visit<'_>) -> Result<Markup, Fault> {
    let category = visit.parameters.id("category")?;
    let page = page_number(visit)?;
    let name = name_of(visit, "category", category)?;
    let now_s = visit.now_s();
    let items = rows(
        visit,
        "SELECT id, name, coalesce(highest_cents, first_cents), bids, ends_s FROM items
         WHERE category = ? AND ends_s > ? ORDER BY ends_s LIMIT ? OFFSET ?",
        params![category, now_s, PAGE_LENGTH + 1, page * PAGE_LENGTH],
        Line::read,
    )?;
    let path = Interaction::SearchItemsInCategory.spec().path;
    Ok(frame(&name, listing(&items, now_s, page, &format!("{path}?category={category}"))))
}

pub(super) fn search_items_in_region(visit: &mut Visit<'_>) -> Result<Markup, Fault> {
    let (region, category) = (visit.parameters.id("region")?, visit.parameters.id("category")?);
    let page = page_number(visit)?;
    let title = format!("{} in {}", name_of(visit, "category", category)?, name_of(visit, "region", region)?);
    let now_s = visit.now_s();
    let items = rows(
        visit,
        "SELECT id, name, coalesce(highest_cents, first_cents), bids, ends_s FROM items
         WHERE region = ? AND category = ? AND ends_s > ? ORDER BY ends_s LIMIT ? OFFSET ?",
        params![region, category, now_s, PAGE_LENGTH + 1, page * PAGE_LENGTH],
        Line::read,
    )?;
    let path = Interaction::SearchItemsInRegion.spec().path;
    Ok(frame(&title, listing(&items, now_s, page, &format!("{path}?region={region}&category={category}"))))
}

/// An item as a line of a list.
pub(super) struct Line {
    id: i64,
    name: String,
    cents: i64,
    bids: i64,
    ends_s: i64,
}

impl Line {
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get(0)?,
            name: row.get(1)?,
            cents: row.get(2)?,
            bids: row.get(3)?,
            ends_s: row.get(4)?,
        })
    }
}

pub(super) fn table(items: &[Line], now_s: i64) -> Markup {
    html! {
        table {
            tr { th { "Item" } th .number { "Now at" } th .number { "Bids" } th { "Ends" } }
            @for item in items {
                tr {
                    td { a href={ "/view-item?item=" (item.id) } { (item.name) } }
                    td .number { (money(item.cents)) }
                    td .number { (item.bids) }
                    td { (when(item.ends_s, now_s)) }
                }
            }
        }
    }
}

/// A page of items; one more than fits says that there is a next page.
fn listing(items: &[Line], now_s: i64, page: i64, link: &str) -> Markup {
    let length = usize::try_from(PAGE_LENGTH).unwrap_or(usize::MAX);
    html! {
        @if items.is_empty() { p { "Nothing here." } }
        @else { (table(&items[..items.len().min(length)], now_s)) }
        p {
            @if page > 0 { a href={ (link) "&page=" (page - 1) } { "Previous page" } " " }
            @if items.len() > length { a href={ (link) "&page=" (page + 1) } { "Next page" } }
        }
    }
}

fn page_number(visit: &Visit<'_>) -> Result<i64, Fault> {
    visit.parameters.number_or("page", 0, 10_000, 0)
}

fn name_of(visit: &Visit<'_>, what: &'static str, id: i64) -> Result<String, Fault> {
    let sql = match what {
        "region" => "SELECT name FROM regions WHERE id = ?",
        _ => "SELECT name FROM categories WHERE id = ?",
    };
    row(visit.db, what, sql, [id], |row| row.get(0))
}

type NamedCount = (i64, String, i64);

fn named_count(row: &Row<'_>) -> rusqlite::Result<NamedCount> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
}

fn tiles(named: &[NamedCount], link: impl Fn(i64) -> String, pictures: bool) -> Markup {
    html! {
        ul .tiles {
            @for (id, name, count) in named {
                li {
                    a href=(link(*id)) {
                        @if pictures {
                            img src={ "/images/category-" (id) ".svg" } width="24" height="24" alt=""; " "
                        }
                        (name) " (" (count) ")"
                    }
                }
            }
        }
    }
}
