//! Tests of connections: beside a list of connections.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Operation {
    Accept,
    Arrive(u64),
    Abandon,
    Depart(usize),
    Configure(u64, Option<u64>),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        5 => Just(Operation::Accept),
        5 => (0..5_u64).prop_map(Operation::Arrive),
        1 => Just(Operation::Abandon),
        3 => any::<usize>().prop_map(Operation::Depart),
        1 => (1..12_u64, prop::option::of(1..4_u64)).prop_map(|(max, client)| Operation::Configure(max, client)),
    ]
}

proptest! {
    #[test]
    fn is_a_list_of_connections(operations in prop::collection::vec(operation(), 0..200)) {
        let now = Timestamp::EPOCH;
        let mut settings = ConnectionSettings { max: 6, per_client_max: Some(2) };
        let mut connections = Connections::new(settings);
        let (mut open, mut in_preface): (Vec<u64>, u64) = (Vec::new(), 0);
        for operation in operations {
            let places = |open: &[u64], in_preface| open.len() as u64 + in_preface < settings.max;
            match operation {
                Operation::Accept => {
                    let expected = places(&open, in_preface);
                    prop_assert_eq!(connections.accept() == Judgement::In, expected);
                    in_preface += u64::from(expected);
                }
                Operation::Arrive(client) => {
                    let of_client = open.iter().filter(|c| **c == client).count() as u64;
                    let expected = if in_preface == 0 && !places(&open, 0) {
                        Judgement::Refuse(Refusal::Connections)
                    } else if settings.per_client_max.is_some_and(|max| of_client >= max) {
                        Judgement::Refuse(Refusal::ClientConnections)
                    } else {
                        open.push(client);
                        Judgement::In
                    };
                    in_preface = in_preface.saturating_sub(1);
                    prop_assert_eq!(connections.arrive(now, client), expected);
                }
                Operation::Abandon => {
                    in_preface = in_preface.saturating_sub(1);
                    connections.abandon();
                }
                Operation::Depart(which) if !open.is_empty() => {
                    connections.depart(now, open.swap_remove(which % open.len()));
                }
                Operation::Depart(_) => connections.depart(now, 3),
                Operation::Configure(max, per_client_max) => {
                    settings = ConnectionSettings { max, per_client_max };
                    connections.configure(settings);
                }
            }
            connections.check_invariants();
            prop_assert_eq!((connections.open(), connections.in_preface()), (open.len() as u64, in_preface));
            open.sort_unstable();
            let mut clients = open.clone();
            clients.dedup();
            prop_assert_eq!(connections.clients(), clients.len());
        }
    }
}
