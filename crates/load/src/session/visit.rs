//! One session on its way through the chain.

use std::{
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;

use super::{Chain, Per, chain::Source};
use crate::{client::Pool, random::SplitMix64, request::RequestTemplate};

/// A session between two replies: where it stands, what was drawn for it, and its connections.
pub(crate) struct Session {
    /// When it was meant to begin.
    pub(crate) began: Instant,
    /// Its own connections and TLS tickets: it is one person's browser.
    pub(crate) pool: Pool,
    /// In a closed loop, which client it is the session of.
    pub(crate) client: Option<usize>,
    /// Its number in its class, from which all it does was drawn.
    pub(crate) number: usize,
    random: SplitMix64,
    values: Box<[u64]>,
    page: u32,
    interactions: u32,
    image: u32,
    images: u32,
}

/// What a session does after a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The page's next image, at once.
    Image,
    /// Another page after this pause.
    Page(Duration),
    /// The session is over.
    Done,
}

impl Session {
    pub(crate) fn begin(
        chain: &Chain,
        random: SplitMix64,
        began: Instant,
        number: usize,
        client: Option<usize>,
        pool: Pool,
    ) -> Self {
        let values = vec![0; chain.parameters.len()].into_boxed_slice();
        let mut session = Self {
            began,
            pool,
            client,
            number,
            random,
            values,
            page: 0,
            interactions: 0,
            image: 0,
            images: 0,
        };
        for (value, source) in session.values.iter_mut().zip(&chain.parameters) {
            if source.per() == Per::Session {
                *value = source.draw(&mut session.random);
            }
        }
        session.turn_to(chain, chain.entry);
        session
    }

    /// The page it is at.
    pub(crate) fn page(&self) -> usize {
        self.page as usize
    }

    /// Whether what is asked for is an image of the page.
    pub(crate) fn is_at_image(&self) -> bool {
        self.image > 0
    }

    /// Whether nothing has been answered yet.
    pub(crate) fn is_at_entry(&self) -> bool {
        self.interactions == 1 && self.image == 0
    }

    /// What it asks for now; the same as long as it has not stepped on.
    pub(crate) fn request(&self, chain: &Chain) -> Option<(RequestTemplate, Bytes)> {
        match self.image {
            0 => chain.page(self.page(), &self.values),
            number => chain.image(number as usize - 1, &self.values),
        }
    }

    /// After a reply: to the next image, the next page, or the end.
    pub(crate) fn step(&mut self, chain: &Chain) -> Step {
        if self.image < self.images {
            self.image += 1;
            return Step::Image;
        }
        let next = chain.pages.get(self.page()).and_then(|page| page.draw_next(&mut self.random));
        match next {
            Some(page) if self.interactions < chain.interactions_max => {
                let pause = chain.think.mul_f64(self.random.exponential());
                self.turn_to(chain, page);
                Step::Page(pause)
            }
            _ => Step::Done,
        }
    }

    /// The pause before a closed loop's next session.
    pub(crate) fn think(&mut self, chain: &Chain) -> Duration {
        chain.think.mul_f64(self.random.exponential())
    }

    fn turn_to(&mut self, chain: &Chain, page: usize) {
        self.page = u32::try_from(page).unwrap_or_default();
        self.interactions += 1;
        self.image = 0;
        for (value, source) in self.values.iter_mut().zip(&chain.parameters) {
            if source.per() == Per::Page {
                *value = source.draw(&mut self.random);
            }
        }
        let images = chain.pages.get(page).map_or(0, |page| page.draw_images(&mut self.random));
        self.images = u32::try_from(images).unwrap_or_default();
    }
}

impl Source {
    fn per(self) -> Per {
        match self {
            Self::Range { per, .. } | Self::Unique { per } => per,
        }
    }

    fn draw(self, random: &mut SplitMix64) -> u64 {
        match self {
            Self::Range { from, to, .. } => random.between(from, to),
            Self::Unique { .. } => unique(),
        }
    }
}

/// Numbers of this process begin at the microsecond of its first use, so that those of the run
/// before, at less than a million a second, lie below.
fn unique() -> u64 {
    static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        AtomicU64::new(u64::try_from(since.as_micros()).unwrap_or(0))
    });
    NEXT.fetch_add(1, Relaxed)
}
