//! The twenty-six interactions as data: for the site's routes and for a load generator.

/// An interaction of the site, under its RUBiS name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is described by its row in SPECS")]
pub enum Interaction {
    Home,
    Register,
    RegisterUser,
    Browse,
    BrowseCategories,
    SearchItemsInCategory,
    BrowseRegions,
    BrowseCategoriesInRegion,
    SearchItemsInRegion,
    ViewItem,
    ViewUserInfo,
    ViewBidHistory,
    BuyNowAuth,
    BuyNow,
    StoreBuyNow,
    PutBidAuth,
    PutBid,
    StoreBid,
    PutCommentAuth,
    PutComment,
    StoreComment,
    Sell,
    SelectCategoryToSellItem,
    SellItemForm,
    RegisterItem,
    AboutMe,
}

impl Interaction {
    /// Its row.
    #[must_use]
    pub fn spec(self) -> &'static Spec {
        &SPECS[self as usize]
    }

    /// The interaction whose page lies at `path`.
    #[must_use]
    pub fn at(path: &str) -> Option<Self> {
        SPECS.iter().find(|spec| spec.path == path).map(|spec| spec.interaction)
    }
}

/// What an interaction asks of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: the page is the same for all.
    Static,
    /// It reads.
    Read,
    /// It writes, in a transaction.
    Write,
}

/// How an interaction is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Parameters in the query.
    Get,
    /// Parameters in the body, as a form.
    Post,
}

/// One interaction as a load generator sends it.
#[derive(Debug)]
pub struct Spec {
    /// Which.
    pub interaction: Interaction,
    /// Its RUBiS name.
    pub name: &'static str,
    /// Its method; the site takes either where it writes nothing.
    pub method: Method,
    /// Its path.
    pub path: &'static str,
    /// Its parameters, percent-encoded, with blanks: `{item}`, `{user}`, `{category}`, `{region}`, `{page}` and
    /// `{unique}` (a number never used before on this site).
    pub parameters: &'static str,
    /// What it asks of the database.
    pub kind: Kind,
}

/// Numbers for the blanks of a [`Spec`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Values {
    /// 1 to `Options::items`.
    pub item: u64,
    /// 1 to `Options::users`.
    pub user: u64,
    /// 1 to [`Spec::CATEGORIES`].
    pub category: u64,
    /// 1 to [`Spec::REGIONS`].
    pub region: u64,
    /// 0 to 10,000, twenty items each.
    pub page: u64,
    /// Any number not used before: it names a new user or item.
    pub unique: u64,
}

/// A request with its blanks filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filled {
    /// The method.
    pub method: Method,
    /// Path and query.
    pub target: String,
    /// The body, of type `application/x-www-form-urlencoded`, where the method is POST.
    pub body: Option<String>,
}

impl Spec {
    /// How many categories there are.
    pub const CATEGORIES: u64 = crate::words::CATEGORIES.len() as u64;
    /// How many regions there are.
    pub const REGIONS: u64 = crate::words::REGIONS.len() as u64;

    /// The request with these numbers in its blanks.
    #[must_use]
    pub fn fill(&self, values: &Values) -> Filled {
        let mut parameters = self.parameters.to_owned();
        for (blank, value) in [
            ("{item}", values.item),
            ("{user}", values.user),
            ("{category}", values.category),
            ("{region}", values.region),
            ("{page}", values.page),
            ("{unique}", values.unique),
        ] {
            parameters = parameters.replace(blank, &value.to_string());
        }
        let (target, body) = match self.method {
            Method::Get if parameters.is_empty() => (self.path.to_owned(), None),
            Method::Get => (format!("{}?{parameters}", self.path), None),
            Method::Post => (self.path.to_owned(), Some(parameters)),
        };
        Filled { method: self.method, target, body }
    }
}

/// Every interaction, in the order of [`Interaction`].
pub const SPECS: &[Spec; 26] = {
    use Interaction::*;
    use Kind::*;
    use Method::*;
    &[
        row(Home, "Home", Get, "/", "", Static),
        row(Register, "Register", Get, "/register", "", Static),
        row(
            RegisterUser,
            "RegisterUser",
            Post,
            "/register-user",
            "nickname=new{unique}&password=secret{unique}&first=New&last=Visitor&email=new{unique}%40example.org\
             &region={region}",
            Write,
        ),
        row(Browse, "Browse", Get, "/browse", "", Static),
        row(BrowseCategories, "BrowseCategories", Get, "/browse-categories", "", Read),
        row(
            SearchItemsInCategory,
            "SearchItemsInCategory",
            Get,
            "/search-items-in-category",
            "category={category}&page={page}",
            Read,
        ),
        row(BrowseRegions, "BrowseRegions", Get, "/browse-regions", "", Read),
        row(
            BrowseCategoriesInRegion,
            "BrowseCategoriesInRegion",
            Get,
            "/browse-categories-in-region",
            "region={region}",
            Read,
        ),
        row(
            SearchItemsInRegion,
            "SearchItemsInRegion",
            Get,
            "/search-items-in-region",
            "region={region}&category={category}&page={page}",
            Read,
        ),
        row(ViewItem, "ViewItem", Get, "/view-item", "item={item}", Read),
        row(ViewUserInfo, "ViewUserInfo", Get, "/view-user-info", "user={user}", Read),
        row(ViewBidHistory, "ViewBidHistory", Get, "/view-bid-history", "item={item}", Read),
        row(BuyNowAuth, "BuyNowAuth", Get, "/buy-now-auth", "item={item}", Read),
        row(
            BuyNow,
            "BuyNow",
            Post,
            "/buy-now",
            "item={item}&nickname=user{user}&password=password{user}",
            Read,
        ),
        row(
            StoreBuyNow,
            "StoreBuyNow",
            Post,
            "/store-buy-now",
            "item={item}&quantity=1&nickname=user{user}&password=password{user}",
            Write,
        ),
        row(PutBidAuth, "PutBidAuth", Get, "/put-bid-auth", "item={item}", Read),
        row(
            PutBid,
            "PutBid",
            Post,
            "/put-bid",
            "item={item}&nickname=user{user}&password=password{user}",
            Read,
        ),
        // Without an amount the least that is enough is bid.
        row(
            StoreBid,
            "StoreBid",
            Post,
            "/store-bid",
            "item={item}&quantity=1&nickname=user{user}&password=password{user}",
            Write,
        ),
        row(PutCommentAuth, "PutCommentAuth", Get, "/put-comment-auth", "to={user}&item={item}", Read),
        row(
            PutComment,
            "PutComment",
            Post,
            "/put-comment",
            "to={user}&item={item}&nickname=user{user}&password=password{user}",
            Read,
        ),
        row(
            StoreComment,
            "StoreComment",
            Post,
            "/store-comment",
            "to={user}&item={item}&rating=1&comment=As+described&nickname=user{user}&password=password{user}",
            Write,
        ),
        row(Sell, "Sell", Get, "/sell", "", Static),
        row(
            SelectCategoryToSellItem,
            "SelectCategoryToSellItem",
            Post,
            "/select-category-to-sell-item",
            "nickname=user{user}&password=password{user}",
            Read,
        ),
        row(SellItemForm, "SellItemForm", Get, "/sell-item-form", "category={category}", Static),
        row(
            RegisterItem,
            "RegisterItem",
            Post,
            "/register-item",
            "category={category}&name=Lot+{unique}&description=As+good+as+new&price=10.00&quantity=1&days=7\
             &nickname=user{user}&password=password{user}",
            Write,
        ),
        row(AboutMe, "AboutMe", Post, "/about-me", "nickname=user{user}&password=password{user}", Read),
    ]
};

const fn row(
    interaction: Interaction,
    name: &'static str,
    method: Method,
    path: &'static str,
    parameters: &'static str,
    kind: Kind,
) -> Spec {
    Spec { interaction, name, method, path, parameters, kind }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_the_order_of_the_interactions_with_five_static() {
        for (index, spec) in SPECS.iter().enumerate() {
            assert_eq!(spec.interaction as usize, index, "{}", spec.name);
            assert_eq!(spec.name, format!("{:?}", spec.interaction));
            assert_eq!(Interaction::at(spec.path), Some(spec.interaction));
        }
        assert_eq!(SPECS.iter().filter(|spec| spec.kind == Kind::Static).count(), 5);
        assert_eq!(SPECS.iter().filter(|spec| spec.kind == Kind::Write).count(), 5);
    }

    #[test]
    fn filling_leaves_no_blank() {
        let values = Values { item: 7, user: 8, category: 2, region: 3, page: 0, unique: 99 };
        for spec in SPECS {
            let filled = spec.fill(&values);
            assert!(
                !filled.target.contains('{') && !filled.body.unwrap_or_default().contains('{'),
                "{}",
                spec.name
            );
        }
        assert_eq!(Interaction::ViewItem.spec().fill(&values).target, "/view-item?item=7");
    }
}
