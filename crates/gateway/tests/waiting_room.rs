//! The door of the waiting room: who passes it by.

use crate::support::{Bed, PLAIN, get};

/// Newcomers meet nobody; assets pass.
fn closed() -> Bed {
    Bed::with_application("", PLAIN, "waiting_room.method = \"closed\"")
}

/// What a server takes for a page is no asset, however it is written: servlet containers cut parameters of a path.
#[test]
fn a_page_is_no_asset_by_its_parameters() {
    let bed = closed();
    let mut client = bed.connect();
    for path in ["/checkout", "/checkout;x.css", "/checkout;a=1;b=.css", "/;.css", "/x.css/;y.css"] {
        assert_eq!(get(&mut client, path).status, 503, "{path}");
    }
    for path in ["/a.css", "/a.css;v=1", "/a.css?v=1", "/a/b/../c.%63ss", "/x;y=1/a.css"] {
        let answer = get(&mut client, path);
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.body.starts_with(&format!("GET {path} ")), "as it came: {}", answer.body);
    }
}

/// Where a server runs `/index.php` for `/index.php/a.css`, nothing is to pass by its ending.
#[test]
fn without_endings_nothing_passes_by_them() {
    let bed = Bed::with_application(
        "",
        PLAIN,
        "waiting_room.method = \"closed\"\nwaiting_room.assets = []\n\
         [application.app.class.assets]\nwaiting_room.queues = false\n\
         [[application.app.rule]]\nclass = \"assets\"\npath_prefix = \"/static\"",
    );
    let mut client = bed.connect();
    for (path, status) in
        [("/index.php/a.css", 503), ("/static/a.css", 200), ("/static/../index.php/a.css", 503)]
    {
        assert_eq!(get(&mut client, path).status, status, "{path}");
    }
}
