//! Mode `watch`: nothing is refused, and what would have been is counted.

use tidegate_control::{ApplicationId, ClassId, Refusal, meters::Meter};
use tidegate_runtime::Subject;

use crate::support::{Bed, PLAIN, eventually, get};

#[test]
fn what_would_have_been_refused_is_counted_by_reason() {
    let application = "mode = \"watch\"\ningress = { rate = \"0.001/s\", burst = 2 }\n\
                       client = { rate = \"0.001/s\", burst = 4 }\n";
    let bed = Bed::with_application("", PLAIN, application);
    let mut client = bed.connect();
    for n in 0..5 {
        assert_eq!(get(&mut client, &format!("/{n}")).status, 200);
    }
    // Tokens were there for two of the five, and for four of this client.
    let class = Subject::Class(ApplicationId(0), ClassId(0));
    let mut counts = vec![0; Refusal::ALL.len()];
    counts[Refusal::IngressRate.index()] = 3;
    counts[Refusal::ClientRate.index()] = 1;
    eventually("counted", || {
        let totals = bed.shared.totals().read();
        totals.get(&class).is_some_and(|readings| readings.counts(Meter::WOULD_REFUSE) == counts)
    });
    assert_eq!(bed.shared.totals().read()[&class].counts(Meter::REFUSED).iter().sum::<u64>(), 0);
}
