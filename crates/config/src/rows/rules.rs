//! Rows of what is done to requests: rules with their conditions, rewrites, edits of headers.

use tidegate_control::knobs::Knob;

use crate::shape::{Absent, Row, Shape, Table};

/// An edit of a header section.
pub(crate) static HEADER_EDIT: Table = Table {
    title: "{ set | add | remove, value, always }",
    doc: "An edit of one header field: exactly one of set, add and remove.",
    scope: None,
    rows: &[
        Row {
            name: "set",
            shape: Shape::Text("a header's name"),
            absent: Absent::Means("not set"),
            doc: "Replaces every value of this field.",
        },
        Row {
            name: "add",
            shape: Shape::Text("a header's name"),
            absent: Absent::Means("not added to"),
            doc: "Adds a value to this field.",
        },
        Row {
            name: "remove",
            shape: Shape::Text("a header's name"),
            absent: Absent::Means("not removed"),
            doc: "Removes this field.",
        },
        Row {
            name: "value",
            shape: Shape::Text("a header's value"),
            absent: Absent::Means("required with set and add"),
            doc: "The value.",
        },
        Row {
            name: "always",
            shape: Shape::Flag,
            absent: Absent::Value("false"),
            doc: "In response_headers, with set and add: also on the gateway's own answers about this application (refusals, waiting room, errors of its servers), whose own fields stay.",
        },
    ],
};

/// A path rewrite.
pub(crate) static REWRITE: Table = Table {
    title: "{ pattern, replacement }",
    doc: "A path rewrite.",
    scope: None,
    rows: &[
        Row {
            name: "pattern",
            shape: Shape::Text("a regular expression such as \"^/old/(.*)\""),
            absent: Absent::Required("pattern = \"^/old/(.*)\""),
            doc: "Regular expression on the path, anchored at its start.",
        },
        Row {
            name: "replacement",
            shape: Shape::Text("an absolute path such as \"/new/$1\""),
            absent: Absent::Required("replacement = \"/new/$1\""),
            doc: "What replaces the match; $1 stands for the first group.",
        },
    ],
};

/// Conditions of a rule: it holds when every one that is written holds.
const CONDITIONS: [Row; 14] = [
    Row {
        name: "path",
        shape: Shape::Texts { each: "a glob such as \"/cart/**\"", max: 256 },
        absent: Absent::Means("not asked"),
        doc: "Path as a glob: `*` within a segment, `**` across segments.",
    },
    Row {
        name: "path_exact",
        shape: Shape::Texts { each: "a path such as \"/cart\"", max: 256 },
        absent: Absent::Means("not asked"),
        doc: "Path, as a whole.",
    },
    Row {
        name: "path_prefix",
        shape: Shape::Texts { each: "a path such as \"/cart\"", max: 256 },
        absent: Absent::Means("not asked"),
        doc: "Path and everything below it, in whole segments.",
    },
    Row {
        name: "path_regex",
        shape: Shape::Texts { each: "a regular expression such as \"/item/[0-9]+\"", max: 256 },
        absent: Absent::Means("not asked"),
        doc: "Path as a regular expression, anchored at both ends.",
    },
    Row {
        name: "method",
        shape: Shape::Texts { each: "a method such as \"POST\"", max: 64 },
        absent: Absent::Means("not asked"),
        doc: "Method.",
    },
    Row {
        name: "host",
        shape: Shape::Texts { each: "a host name such as \"shop.example\" or \"*.shop.example\"", max: 256 },
        absent: Absent::Means("not asked"),
        doc: "Host name.",
    },
    Row {
        name: "header",
        shape: Shape::Conditions { max: 64 },
        absent: Absent::Means("not asked"),
        doc: "Header fields; all must hold.",
    },
    Row {
        name: "query",
        shape: Shape::Conditions { max: 64 },
        absent: Absent::Means("not asked"),
        doc: "Query parameters; all must hold.",
    },
    Row {
        name: "cookie",
        shape: Shape::Conditions { max: 64 },
        absent: Absent::Means("not asked"),
        doc: "Cookies; all must hold.",
    },
    Row {
        name: "client",
        shape: Shape::Texts { each: "a network such as \"10.0.0.0/8\"", max: 1024 },
        absent: Absent::Means("not asked"),
        doc: "Networks of the client's address.",
    },
    Row {
        name: "secure",
        shape: Shape::Flag,
        absent: Absent::Means("not asked"),
        doc: "Whether the connection is TLS at all.",
    },
    Row {
        name: "resumed",
        shape: Shape::Flag,
        absent: Absent::Means("not asked"),
        doc: "Whether the TLS session was resumed.",
    },
    Row {
        name: "client_certificate",
        shape: Shape::Flag,
        absent: Absent::Means("not asked"),
        doc: "Whether the client showed a certificate that was verified.",
    },
    Row {
        name: "server_name",
        shape: Shape::Texts { each: "a host name such as \"shop.example\" or \"*.shop.example\"", max: 256 },
        absent: Absent::Means("not asked"),
        doc: "Server name the client asked for in TLS.",
    },
];

/// A classification rule.
pub(crate) static RULE: Table = Table {
    title: "[[application.NAME.rule]]",
    doc: "A classification rule: it holds when every condition written in it holds; of a list, one is enough.",
    scope: None,
    rows: &with_conditions::<{ CONDITIONS.len() + 6 }>(
        &[Row {
            name: "class",
            shape: Shape::Text("the name of a class"),
            absent: Absent::Means("the default class"),
            doc: "The class of requests for which the rule holds.",
        }],
        &[
            Row {
                name: "priority",
                shape: Shape::Value(Knob::PRIORITY.kind()),
                absent: Absent::Means("the class's"),
                doc: "Priority of requests for which the rule holds.",
            },
            Row {
                name: "weight",
                shape: Shape::Value(Knob::WEIGHT.kind()),
                absent: Absent::Means("the class's"),
                doc: "Weight units one request takes of the in-flight limit.",
            },
            Row {
                name: "deadline",
                shape: Shape::Value(Knob::DEADLINE.kind()),
                absent: Absent::Means("the class's"),
                doc: "From arrival until the latest start.",
            },
            Row {
                name: "deadline_header",
                shape: Shape::Text("a header's name"),
                absent: Absent::Means("none is read"),
                doc: "Header with the time in milliseconds the client will still wait; the earlier of it and deadline counts.",
            },
            Row {
                name: "priority_header",
                shape: Shape::Flag,
                absent: Absent::Value("false"),
                doc: "Whether the Priority header's urgency (RFC 9218) moves the priority, within 1 to 6.",
            },
        ],
    ),
};

/// A rule of which application serves a request.
pub(crate) static ROUTE: Table = Table {
    title: "[[route]]",
    doc: "Which application serves a request, where its host does not say: the first route that holds, as a classification rule does. Listeners that have an application of their own do not ask. The host must be one that an application serves.",
    scope: None,
    rows: &with_conditions::<{ CONDITIONS.len() + 1 }>(
        &[Row {
            name: "application",
            shape: Shape::Text("the name of an application"),
            absent: Absent::Required("application = \"api\""),
            doc: "The application that serves requests for which the route holds.",
        }],
        &[],
    ),
};

/// The conditions between rows of a table's own; `N` of all together.
const fn with_conditions<const N: usize>(before: &[Row], after: &[Row]) -> [Row; N] {
    assert!(before.len() + CONDITIONS.len() + after.len() == N, "every row has its place");
    let mut rows = [CONDITIONS[0]; N];
    let mut at = 0;
    while at < N {
        rows[at] = if at < before.len() {
            before[at]
        } else if at < before.len() + CONDITIONS.len() {
            CONDITIONS[at - before.len()]
        } else {
            after[at - before.len() - CONDITIONS.len()]
        };
        at += 1;
    }
    rows
}

/// What a condition on a field may be, in words.
pub(crate) const CONDITION_EXPECTED: &str =
    "\"value\", true (present), false (absent), { prefix = \"…\" } or { regex = \"…\" }";

/// A condition on a field's value that is more than a string or flag.
pub(crate) static CONDITION: Table = Table {
    title: "{ prefix | regex }",
    doc: "A condition on a field's value: exactly one of prefix and regex.",
    scope: None,
    rows: &[
        Row {
            name: "prefix",
            shape: Shape::Text("how the value begins"),
            absent: Absent::Means("not asked"),
            doc: "One of the field's values begins so.",
        },
        Row {
            name: "regex",
            shape: Shape::Text("a regular expression"),
            absent: Absent::Means("not asked"),
            doc: "One of the field's values matches this regular expression, anchored at both ends.",
        },
    ],
};
