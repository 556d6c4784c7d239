//! The content of a new site, generated from a seed in one transaction.

use rusqlite::{Connection, params};

use super::password;
use crate::Options;
use crate::words::{ADJECTIVES, CATEGORIES, COMMENTS, FIRST_NAMES, LAST_NAMES, REGIONS, SENTENCES, THINGS};

const DAY_S: i64 = 24 * 60 * 60;

/// Fills an empty database. The content depends on seed, items and users alone; only the opening time is the clock's.
pub(super) fn fill(
    connection: &mut Connection,
    options: &Options,
    opened_unix_s: i64,
) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(include_str!("schema.sql"))?;
    transaction.execute(
        "INSERT INTO site VALUES (?, ?, ?, ?)",
        params![opened_unix_s, options.seed.cast_signed(), options.items, options.users],
    )?;
    for (table, names) in [("categories", CATEGORIES), ("regions", REGIONS)] {
        let mut insert = transaction.prepare(&format!("INSERT INTO {table} VALUES (?, ?)"))?;
        for (id, name) in (1_i64..).zip(names) {
            insert.execute(params![id, name])?;
        }
    }
    let mut random = SplitMix64(options.seed);
    let regions = fill_users(&transaction, options.users, &mut random)?;
    fill_items(&transaction, options.items, &regions, &mut random)?;
    transaction.execute_batch(include_str!("indexes.sql"))?;
    transaction.commit()
}

/// Returns each person's region, the first at 0.
fn fill_users(connection: &Connection, users: u32, random: &mut SplitMix64) -> rusqlite::Result<Vec<i64>> {
    let mut insert = connection.prepare("INSERT INTO users VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")?;
    let mut regions = Vec::with_capacity(users as usize);
    for id in 1..=users {
        let nickname = format!("user{id}");
        let region = random.from(1, REGIONS.len());
        insert.execute(params![
            id,
            nickname,
            random.choose(FIRST_NAMES),
            random.choose(LAST_NAMES),
            format!("{nickname}@example.org"),
            password::hash(&nickname, &format!("password{id}")),
            region,
            random.from(0, 50),
            -random.from(1, 2_000) * DAY_S,
        ])?;
        regions.push(region);
    }
    Ok(regions)
}

/// Items on sale, each with up to eight bids, and a comment about every second seller's item.
fn fill_items(
    connection: &Connection,
    items: u32,
    regions: &[i64],
    random: &mut SplitMix64,
) -> rusqlite::Result<()> {
    let mut insert_item =
        connection.prepare("INSERT INTO items VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")?;
    let mut insert_bid = connection
        .prepare("INSERT INTO bids (item, bidder, quantity, cents, at_s) VALUES (?, ?, 1, ?, ?)")?;
    let mut insert_comment = connection.prepare(
        "INSERT INTO comments (author, about, item, rating, text, at_s) VALUES (?, ?, ?, ?, ?, ?)",
    )?;
    for id in 1..=items {
        let seller = random.from(1, regions.len());
        let region =
            usize::try_from(seller - 1).ok().and_then(|index| regions.get(index)).copied().unwrap_or(1);
        let first_cents = random.from(1, 200) * 50;
        let starts_s = -random.from(0, 7 * 24 * 3_600);
        let mut highest_cents = None;
        let offers: Vec<i64> = (0..random.from(0, 8))
            .map(|_| *highest_cents.insert(highest_cents.unwrap_or(first_cents) + random.from(1, 20) * 25))
            .collect();
        let bids = i64::try_from(offers.len()).unwrap_or(i64::MAX);
        let price = highest_cents.unwrap_or(first_cents);
        insert_item.execute(params![
            id,
            format!("{} {}", random.choose(ADJECTIVES), random.choose(THINGS)),
            description(random),
            seller,
            random.from(1, CATEGORIES.len()),
            region,
            random.from(1, 100),
            first_cents,
            (random.from(1, 5) == 1).then_some(price + 2_000),
            (random.from(1, 2) == 1).then_some(price * 2),
            bids,
            highest_cents,
            starts_s,
            random.from(1, 30) * DAY_S + random.from(0, 24 * 3_600 - 1),
        ])?;
        for (number, cents) in (1..).zip(&offers) {
            let at_s = starts_s - starts_s * number / (bids + 1);
            insert_bid.execute(params![id, random.from(1, regions.len()), cents, at_s])?;
        }
        if random.from(1, 2) == 1 {
            insert_comment.execute(params![
                random.from(1, regions.len()),
                seller,
                id,
                random.from(-1, 1),
                random.choose(COMMENTS),
                starts_s,
            ])?;
        }
    }
    Ok(())
}

fn description(random: &mut SplitMix64) -> String {
    let sentences: Vec<_> = (0..random.from(2, 12)).map(|_| random.choose(SENTENCES)).collect();
    sentences.join(" ")
}

/// The generator of Steele, Lea and Flood: Fast splittable pseudorandom number generators, OOPSLA 2014, figure 17.
/// Written out, so that a seed gives the same content in every version.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `min` to `max`, both included.
    fn from(&mut self, min: i64, max: impl TryInto<i64>) -> i64 {
        let max = max.try_into().unwrap_or(min).max(min);
        let span = max.abs_diff(min) + 1;
        // Multiply and shift; the bias is below 2^-40 for the spans used here.
        let offset = (u128::from(self.next()) * u128::from(span)) >> 64;
        min + i64::try_from(offset).unwrap_or(0)
    }

    fn choose<'a>(&mut self, among: &[&'a str]) -> &'a str {
        let index = usize::try_from(self.from(1, among.len()) - 1).unwrap_or(0);
        among.get(index).copied().unwrap_or("")
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::digest::{Context, SHA256};

    use super::*;

    #[test]
    fn the_generator_gives_its_published_numbers() {
        // Seed 1234567, as in the reference implementation's test.
        let mut random = SplitMix64(1_234_567);
        let numbers: Vec<_> = (0..3).map(|_| random.next()).collect();
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
        assert!((0..1_000).map(|_| random.from(-1, 1)).all(|number| (-1..=1).contains(&number)));
    }

    #[test]
    fn a_seed_gives_the_same_content_always_and_another_seed_other_content() {
        let one = content_hash(1, 200);
        assert_eq!(one, content_hash(1, 200));
        assert_ne!(one, content_hash(2, 200));
        // Pinned, so that a version that changes the content of a seed is noticed.
        assert_eq!(one, "10f79ee7fd607c217d8c737490cfafb1c1f91769d010daa8facda4d2d0a60ed7");
    }

    /// SHA-256 over all rows but the opening time, in order.
    fn content_hash(seed: u64, items: u32) -> String {
        let options = Options { seed, items, users: 20, ..Options::default() };
        let mut connection = Connection::open_in_memory().expect("a database");
        fill(&mut connection, &options, 1_000).expect("filled");
        let mut hash = Context::new(&SHA256);
        for table in ["categories", "regions", "users", "items", "bids", "comments"] {
            let mut statement =
                connection.prepare(&format!("SELECT * FROM {table} ORDER BY id")).expect("a table");
            let columns = statement.column_count();
            let mut rows = statement.query([]).expect("rows");
            while let Some(row) = rows.next().expect("a row") {
                for column in 0..columns {
                    hash.update(format!("{:?};", row.get_ref(column).expect("a value")).as_bytes());
                }
            }
        }
        hash.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
