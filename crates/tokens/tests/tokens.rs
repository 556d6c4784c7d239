//! Tests of tokens: nothing that was not signed here, for this, is taken; any bytes are read or refused.

use std::time::Duration;

use tidegate_control::{
    ClassId, Timestamp,
    waiting_room::{Bypass, Kind, Pass, Promise},
};

use tidegate_tokens::{Key, KeyError, Keys, Signer, TokenFault};

const NOON: Timestamp = Timestamp::from_nanos(1_795_262_400_000_000_000);
const CLASSES: &[&str] = &["default", "shop", "search"];
const HERE: &[u8] = &[192, 0, 2];

fn key(id: u8) -> Key {
    Key { id, secret: [id ^ 0x5A; 32], made: NOON }
}

fn signer() -> Signer {
    Keys::new(key(1), &[]).unwrap().for_application("shop", CLASSES)
}

fn promise(number: u64) -> Promise {
    Promise {
        kind: if number.is_multiple_of(7) { Kind::Lot } else { Kind::Place },
        class: ClassId(u16::try_from(number % 3).unwrap()),
        since: NOON,
        at: NOON + Duration::from_millis(number % 3_600_000),
        work: u32::try_from(number % 10_000).unwrap(),
        renewed: u8::try_from(number % 256).unwrap(),
        number: number.wrapping_mul(0x9E37_79B9_7F4A_7C15),
    }
}

#[test]
fn what_is_signed_reads_back() {
    let signer = signer();
    for number in 0..10_000 {
        let promise = promise(number);
        let text = signer.place(&promise, HERE);
        assert_eq!(text.len(), 64);
        assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'));
        assert_eq!(signer.read_place(text.as_bytes(), HERE), Ok(promise));
    }
    let pass = Pass { class: ClassId(2), begun: NOON, until: NOON + Duration::from_secs(300), number: 9 };
    let text = signer.pass(&pass, HERE);
    assert_eq!(signer.read_pass(text.as_bytes(), HERE), Ok(pass));
    let bypass =
        Bypass { class: ClassId(1), issued: NOON, until: NOON + Duration::from_secs(86_400), number: 3 };
    assert_eq!(signer.read_bypass(signer.bypass(&bypass).as_bytes()), Ok(bypass));
}

#[test]
fn the_text_is_the_same_for_ever() {
    // Tokens outlive the program that signed them. Made by Python's hmac, hashlib and base64.
    let promise = Promise { kind: Kind::Place, class: ClassId(1), ..promise(12_345) };
    let text = signer().place(&promise, HERE);
    assert_eq!(&*text, "AQEAOY2QAdMBof36RgABof36djkAAAkpoSziK07ZkK1xWd7j9284IiO0226TCl-T");
}

#[test]
fn every_bit_is_guarded() {
    let signer = signer();
    let text = signer.place(&promise(1), HERE);
    for position in 0..64 {
        for other in *b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=+/ \0" {
            let mut bytes = text.as_bytes().to_vec();
            if std::mem::replace(&mut bytes[position], other) != other {
                assert!(signer.read_place(&bytes, HERE).is_err(), "position {position}, {other}");
            }
        }
    }
}

#[test]
fn a_token_never_crosses_application_class_key_kind_or_binding() {
    let here = signer();
    let one = promise(1);
    let text = here.place(&one, HERE);
    let read = |signer: &Signer| signer.read_place(text.as_bytes(), HERE);
    assert_eq!(
        read(&Keys::new(key(1), &[]).unwrap().for_application("blog", CLASSES)),
        Err(TokenFault::Forged)
    );
    assert_eq!(read(&Keys::new(key(2), &[]).unwrap().for_application("shop", CLASSES)), Err(TokenFault::Key));
    let same_number = Key { id: 1, secret: [7; 32], made: NOON };
    assert_eq!(
        read(&Keys::new(same_number, &[]).unwrap().for_application("shop", CLASSES)),
        Err(TokenFault::Forged)
    );
    assert_eq!(
        read(&Keys::new(key(1), &[]).unwrap().for_application("shop", &["default"])),
        Err(TokenFault::Class)
    );
    assert_eq!(here.read_pass(text.as_bytes(), HERE), Err(TokenFault::Kind));
    let unbound = here.place(&one, &[]);
    assert_eq!(here.read_bypass(unbound.as_bytes()), Err(TokenFault::Kind));
    let bypass = here.bypass(&Bypass { class: ClassId(0), issued: NOON, until: NOON, number: 1 });
    assert_eq!(here.read_pass(bypass.as_bytes(), &[]), Err(TokenFault::Kind));
    assert_eq!(here.read_place(bypass.as_bytes(), &[]), Err(TokenFault::Kind));
    let blog = Keys::new(key(1), &[]).unwrap().for_application("blog", CLASSES);
    assert_eq!(blog.read_bypass(bypass.as_bytes()), Err(TokenFault::Forged));
    for elsewhere in [&[192, 0, 3][..], &[192, 0], &[192, 0, 2, 0], &[]] {
        assert_eq!(here.read_place(text.as_bytes(), elsewhere), Err(TokenFault::Forged), "{elsewhere:?}");
    }
    // Classes in another order: the token is of the class of its name.
    let turned = Keys::new(key(1), &[]).unwrap().for_application("shop", &["search", "shop", "default"]);
    assert_eq!(turned.read_place(text.as_bytes(), HERE), Ok(one));
    let search = here.place(&Promise { class: ClassId(2), ..one }, HERE);
    assert_eq!(turned.read_place(search.as_bytes(), HERE).map(|promise| promise.class), Ok(ClassId(0)));
}

#[test]
fn keys_are_changed_without_breaking_what_is_out() {
    let one = promise(1);
    let text = signer().place(&one, HERE);
    let later = Keys::new(key(2), &[key(1)]).unwrap().for_application("shop", CLASSES);
    assert_eq!(later.read_place(text.as_bytes(), HERE), Ok(one));
    let newer = later.place(&one, HERE);
    assert_ne!(text, newer);
    assert_eq!(signer().read_place(newer.as_bytes(), HERE), Err(TokenFault::Key));
    let without = Keys::new(key(2), &[]).unwrap().for_application("shop", CLASSES);
    assert_eq!(without.read_place(text.as_bytes(), HERE), Err(TokenFault::Key));
    assert_eq!(Keys::new(key(2), &[key(2)]).unwrap_err(), KeyError::SameId { id: 2 });
    let nine: Vec<Key> = (0..8).map(key).collect();
    assert_eq!(Keys::new(key(9), &nine).unwrap_err(), KeyError::TooMany { found: 9 });
}

#[test]
fn keys_of_two_processes_hold_side_by_side_though_they_have_the_same_numbers() {
    let one = promise(1);
    let [own, heard, neither] = [1, 2, 3]
        .map(|secret| Keys::new(Key { secret: [secret; 32], ..key(0) }, &[]).unwrap().of_application("shop"));
    let both = Signer::new(&heard, &own, CLASSES);
    for keys in [&own, &heard] {
        let text = Signer::new(keys, &[], CLASSES).place(&one, HERE);
        assert_eq!(both.read_place(text.as_bytes(), HERE), Ok(one));
    }
    assert_eq!(both.place(&one, HERE), Signer::new(&heard, &[], CLASSES).place(&one, HERE), "the first sign");
    // Before anything was heard the others sign, and a token of their number may be one of a key that is yet to come.
    let before = Signer::new(&[], &own, CLASSES);
    assert_eq!(before.read_place(before.place(&one, HERE).as_bytes(), HERE), Ok(one));
    let text = Signer::new(&neither, &[], CLASSES).place(&one, HERE);
    let read = [&before, &both].map(|signer| signer.read_place(text.as_bytes(), HERE));
    assert_eq!(read, [Err(TokenFault::Key), Err(TokenFault::Forged)]);
}

/// 800,000 made up in four ways; the other 200,000 of a million, expired and replayed ones, are tested with the room that says so.
#[test]
fn none_of_hundreds_of_thousands_that_are_forged_altered_or_swapped_is_taken() {
    let signer = signer();
    let other =
        Keys::new(Key { id: 1, secret: [9; 32], made: NOON }, &[]).unwrap().for_application("shop", CLASSES);
    let mut random = 88_172_645_463_325_252_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut taken = 0_u32;
    for number in 0..200_000_u64 {
        let text = signer.place(&promise(number), HERE);
        // Altered: one character is another.
        let mut altered = text.as_bytes().to_vec();
        let position = usize::try_from(next() % 64).unwrap();
        let before = altered[position];
        while altered[position] == before {
            altered[position] = ALPHABET[usize::try_from(next() % 64).unwrap()];
        }
        taken += u32::from(signer.read_place(&altered, HERE).is_ok());
        // Forged: by who knows everything but the secret.
        taken += u32::from(signer.read_place(other.place(&promise(number), HERE).as_bytes(), HERE).is_ok());
        // Swapped: the facts of one and the tag of the next. 32 bytes end within a character, so bytes of the text do not do.
        let next_text = signer.place(&promise(number + 1), HERE);
        let mut swapped = text.as_bytes().to_vec();
        swapped[43..].copy_from_slice(&next_text.as_bytes()[43..]);
        taken += u32::from(signer.read_place(&swapped, HERE).is_ok());
        // Somebody else's.
        taken += u32::from(signer.read_place(text.as_bytes(), &[192, 0, 3]).is_ok());
    }
    assert_eq!(taken, 0);
}

#[test]
fn any_bytes_are_read_or_refused() {
    let signer = signer();
    bolero::check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
        assert!(signer.read_place(bytes, HERE).is_err());
        assert!(signer.read_pass(bytes, HERE).is_err());
        assert!(signer.read_bypass(bytes).is_err());
        // Of the right length too, which chance rarely makes.
        let mut text = *b"AQEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        for (place, byte) in text.iter_mut().skip(2).zip(bytes) {
            *place = *byte;
        }
        assert!(signer.read_place(&text, HERE).is_err());
    });
}
