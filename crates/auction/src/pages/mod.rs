//! The pages, and the frame around them.

mod account;
mod browse;
mod comment;
mod item;
mod sell;
mod trade;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use rusqlite::{OptionalExtension, Params, Row};

use crate::Interaction;
use crate::fault::Fault;
use crate::site::Visit;

/// The page of an interaction.
pub(crate) fn render(interaction: Interaction, visit: &mut Visit<'_>) -> Result<Markup, Fault> {
    use Interaction::*;
    match interaction {
        Home => Ok(account::home()),
        Register => Ok(account::register()),
        RegisterUser => account::register_user(visit),
        AboutMe => account::about_me(visit),
        ViewUserInfo => account::view_user_info(visit),
        Browse => Ok(browse::browse()),
        BrowseCategories => browse::browse_categories(visit),
        SearchItemsInCategory => browse::search_items_in_category(visit),
        BrowseRegions => browse::browse_regions(visit),
        BrowseCategoriesInRegion => browse::browse_categories_in_region(visit),
        SearchItemsInRegion => browse::search_items_in_region(visit),
        ViewItem => item::view_item(visit),
        ViewBidHistory => item::view_bid_history(visit),
        BuyNowAuth => trade::buy_now_auth(visit),
        BuyNow => trade::buy_now(visit),
        StoreBuyNow => trade::store_buy_now(visit),
        PutBidAuth => trade::put_bid_auth(visit),
        PutBid => trade::put_bid(visit),
        StoreBid => trade::store_bid(visit),
        PutCommentAuth => comment::put_comment_auth(visit),
        PutComment => comment::put_comment(visit),
        StoreComment => comment::store_comment(visit),
        Sell => Ok(sell::sell()),
        SelectCategoryToSellItem => sell::select_category_to_sell_item(visit),
        SellItemForm => sell::sell_item_form(visit),
        RegisterItem => sell::register_item(visit),
    }
}

/// The page that tells what went wrong.
pub(crate) fn sorry(fault: &Fault) -> Markup {
    frame(
        "Sorry",
        html! {
            p .sorry { (fault.told()) }
            @if matches!(fault, Fault::SignIn) { (sign_in(Interaction::AboutMe, &[])) }
            p { a href="/browse" { "Back to the auctions" } }
        },
    )
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;margin:0;color:#1c2b30;background:#faf8f3}\
header{display:flex;gap:1.2em;align-items:center;padding:.6em 1.2em;background:#12414f}\
header a{color:#fff;text-decoration:none}main{max-width:60em;margin:1em auto;padding:0 1.2em}\
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.3em .6em;border-bottom:1px solid #ddd}\
td.number,th.number{text-align:right}ul.tiles{list-style:none;display:flex;flex-wrap:wrap;gap:.8em;padding:0}\
ul.tiles a{display:block;padding:.6em .9em;background:#fff;border:1px solid #ddd;border-radius:.5em}\
label{display:block;margin:.5em 0}.sorry{color:#9b2c1f;font-weight:600}.done{color:#1d6b3a;font-weight:600}";

fn frame(title: &str, body: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " · Tidegate auctions" }
                link rel="icon" href="/images/logo.svg";
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    a href="/" { img src="/images/logo.svg" width="32" height="32" alt="Home"; }
                    a href="/browse" { "Browse" }
                    a href="/sell" { "Sell" }
                    a href="/register" { "Register" }
                    a href="/about-me" { "About me" }
                }
                main { h1 { (title) } (body) }
            }
        }
    }
}

/// A form that asks for nickname and password and goes on to `next`, carrying these numbers along.
fn sign_in(next: Interaction, carried: &[(&str, i64)]) -> Markup {
    html! {
        form method="post" action=(next.spec().path) {
            (hidden(carried))
            label { "Nickname " input name="nickname" maxlength="40" required; }
            label { "Password " input name="password" type="password" maxlength="100" required; }
            button { "Sign in" }
        }
    }
}

fn hidden(carried: &[(&str, i64)]) -> Markup {
    html! { @for (name, value) in carried { input type="hidden" name=(name) value=(value); } }
}

/// An amount as people write it.
fn money(cents: i64) -> String {
    format!("€ {}.{:02}", cents / 100, cents % 100)
}

/// A time, as seen from now.
fn when(at_s: i64, now_s: i64) -> String {
    let away = at_s.abs_diff(now_s);
    let (days, hours, minutes) = (away / 86_400, away / 3_600 % 24, away / 60 % 60);
    let span = match (days, hours) {
        (0, 0) => format!("{minutes} min"),
        (0, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    };
    if at_s > now_s { format!("in {span}") } else { format!("{span} ago") }
}

/// All rows of a query.
fn rows<T>(
    visit: &Visit<'_>,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, Fault> {
    let mut statement = visit.db.prepare_cached(sql)?;
    let rows = statement.query_map(params, read)?.collect::<Result<_, _>>()?;
    Ok(rows)
}

/// The one row of a query, or the fault that there is no such `what`.
fn row<T>(
    db: &rusqlite::Connection,
    what: &'static str,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<T, Fault> {
    db.prepare_cached(sql)?.query_row(params, read).optional()?.ok_or(Fault::NotFound(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_and_times_read_as_people_write_them() {
        assert_eq!((money(5), money(1_250)), ("€ 0.05".into(), "€ 12.50".into()));
        assert_eq!(when(90_000, 0), "in 1 d 1 h");
        assert_eq!(when(0, 3_700), "1 h 1 min ago");
        assert_eq!(when(10, 10), "0 min ago");
    }

    #[test]
    fn text_is_escaped_everywhere_it_can_stand() {
        let page = frame("<b>&", html! { p title=("\"'><x>") { ("<script>") } }).into_string();
        assert!(
            page.contains("&lt;b&gt;&amp;") && page.contains("&quot;") && page.contains("&lt;script&gt;")
        );
        assert!(!page.contains("<script>") && !page.contains("<x>"));
    }
}
