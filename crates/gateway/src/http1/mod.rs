//! How a message of HTTP/1 lies on the wire, towards clients and servers alike: bodies off it and onto it
//! (RFC 9112, sections 6 and 7), and what fields of heads consist of. What a head means, each side says for itself.

pub(crate) mod date;
mod decode;
mod encode;
mod fields;
mod names;

pub(crate) use self::{
    decode::{Decoded, Decoder, Malformed},
    encode::{OtherLength, Outgoing, Rest, announced_trailers, field},
    fields::{Room, members, number},
    names::{ends_here, is_name, name},
};
