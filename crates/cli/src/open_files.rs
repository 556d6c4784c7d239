//! The limit on open files: raised as far as it goes, and compared with the connections that are to be held.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tidegate_config::Settings;
use tidegate_control::knobs::keys;

/// Raises this process's own limit to the one it may not go beyond: what sessions and services begin with is meant for
/// programs that cannot handle more.
pub(crate) fn raise() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::warn!(%error, ?current, "the limit on open files could not be raised");
    }
}

/// Warns where the limit is below what `connections.max` connections may need.
pub(crate) fn compare(settings: &Settings) {
    let limit = getrlimit(Resource::Nofile).current;
    if let Some(doubt) = limit.and_then(|limit| doubt(limit, settings.host.get(keys::CONNECTIONS_MAX))) {
        tracing::warn!("{doubt}");
    }
}

fn doubt(limit: u64, connections: u64) -> Option<String> {
    // One for each client, another one for the server that its request is at.
    let needed = connections.saturating_mul(2);
    (limit < needed).then(|| {
        format!(
            "connections.max is {connections}, for which up to {needed} files and more are open, but no more than {limit} \
             may be: raise LimitNOFILE or `ulimit -n`, or lower connections.max"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::doubt;

    #[test]
    fn a_limit_below_two_for_each_connection_is_doubted_with_both_numbers() {
        assert_eq!(doubt(200_000, 100_000), None);
        assert_eq!(doubt(u64::MAX, u64::MAX), None);
        let said = doubt(4096, 100_000).expect("too few");
        for part in ["connections.max is 100000", "no more than 4096", "LimitNOFILE"] {
            assert!(said.contains(part), "{said}");
        }
    }
}
