//! The thread that exports: metrics at their interval, traced requests as they come.

use std::{
    sync::{Arc, mpsc as std_mpsc},
    thread,
    time::Duration,
};

use opentelemetry_proto::tonic::collector::{
    metrics::v1::ExportMetricsServiceResponse, trace::v1::ExportTraceServiceResponse,
};
use prost::Message;
use tidegate_control::{
    Timestamp,
    meters::{Meter, SpansLost},
};
use tidegate_runtime::{CoreMeters, Scrape, Shared, TracedRequest};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep, sleep_until},
};

use crate::{
    line::{Line, Sent},
    metrics,
    plan::{Plan, TelemetryError},
    traces,
};

/// Traced requests in one message at most.
const BATCH_MAX: usize = 512;
/// After a batch more are let come for this long, so that cores do not wake the thread each time.
const BATCH_TIME: Duration = Duration::from_millis(200);
/// What is under way at the end has this long.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// A handle on the thread; dropped, it sends what there is and ends.
#[derive(Debug)]
pub(crate) struct Exporter {
    orders: watch::Sender<Order>,
    ended: std_mpsc::Receiver<()>,
}

/// What the thread is to do.
#[derive(Clone, Debug, Default)]
struct Order {
    plan: Option<Arc<Plan>>,
    /// Whether this is the end.
    ends: bool,
}

impl Exporter {
    /// Starts the thread.
    pub(crate) fn start(
        shared: &Arc<Shared>,
        started: Timestamp,
        plan: Plan,
    ) -> Result<Self, TelemetryError> {
        let (orders, followed) = watch::channel(Order { plan: Some(Arc::new(plan)), ends: false });
        let (ending, ended) = std_mpsc::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(TelemetryError::Thread)?;
        let shared = Arc::clone(shared);
        thread::Builder::new()
            .name("tidegate-otlp".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::join!(
                        send_metrics(&shared, started, followed.clone()),
                        send_traces(&shared, followed.clone())
                    )
                });
                // Told by being dropped, when this ends.
                drop(ending);
            })
            .map_err(TelemetryError::Thread)?;
        Ok(Self { orders, ended })
    }

    /// Exports by this plan from now on, or nothing.
    pub(crate) fn follow(&self, plan: Option<Plan>) {
        self.orders.send_if_modified(|order| {
            let is_same = match (&order.plan, &plan) {
                (Some(before), Some(plan)) => before.is_same(plan),
                (None, None) => true,
                _ => false,
            };
            if !is_same {
                order.plan = plan.map(Arc::new);
            }
            !is_same
        });
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.orders.send_modify(|order| order.ends = true);
        // A collector that is slow does not hold up the end.
        let _ = self.ended.recv_timeout(END_TIMEOUT);
    }
}

/// Sends every meter now and then.
async fn send_metrics(shared: &Shared, started: Timestamp, mut orders: watch::Receiver<Order>) {
    loop {
        let order = orders.borrow_and_update().clone();
        let plan = order.plan.and_then(|plan| Some((plan.settings.metrics_interval?, plan)));
        let Some((interval, plan)) = plan else {
            if order.ends || orders.changed().await.is_err() {
                return;
            }
            continue;
        };
        let mut line = Line::new(&plan, "metrics", "/v1/metrics");
        let mut next = Instant::now();
        loop {
            tokio::select! {
                biased;
                changed = orders.changed() => match changed {
                    Ok(()) => break,
                    Err(_) => return,
                },
                () = sleep_until(next) => {}
            }
            let pause = scrape(shared, started, &plan, &mut line).await;
            next = Instant::now() + interval.max(pause);
        }
        if orders.borrow().ends {
            // What was counted last, unless the collector is known to be away.
            if line.is_well() {
                scrape(shared, started, &plan, &mut line).await;
            }
            return;
        }
    }
}

/// Sends every meter; gives the pause that is to be made.
async fn scrape(shared: &Shared, started: Timestamp, plan: &Plan, line: &mut Line) -> Duration {
    let message = metrics::request(&Scrape::read(shared), plan.resource.clone(), started);
    match line.send(message.encode_to_vec().into()).await {
        Sent::Taken(answer) => {
            let partial = ExportMetricsServiceResponse::decode(answer).unwrap_or_default().partial_success;
            let partial = partial.unwrap_or_default();
            line.dropped(partial.rejected_data_points, &partial.error_message);
            Duration::ZERO
        }
        Sent::Later(pause) => pause,
        Sent::Refused => Duration::ZERO,
    }
}

/// Sends traced requests as they come.
async fn send_traces(shared: &Shared, mut orders: watch::Receiver<Order>) {
    let Some(mut requests) = shared.spans().take() else { return };
    let mut batch = Batch { requests: Vec::new(), meters: CoreMeters::default(), shared };
    loop {
        let order = orders.borrow_and_update().clone();
        let Some(plan) = order.plan else {
            batch.requests.clear();
            while requests.try_recv().is_ok() {}
            if order.ends || orders.changed().await.is_err() {
                break;
            }
            continue;
        };
        let mut line = Line::new(&plan, "traces", "/v1/traces");
        while !orders.has_changed().unwrap_or(true) {
            let pause = tokio::select! {
                biased;
                _ = changed(&orders) => break,
                pause = batch.send_next(&mut requests, &plan, &mut line) => pause,
            };
            if let Some(pause) = pause {
                tokio::select! {
                    _ = changed(&orders) => {}
                    () = sleep(pause) => {}
                }
            }
        }
        if orders.borrow().ends {
            while line.is_well() && (!batch.requests.is_empty() || !requests.is_empty()) {
                batch.send_next(&mut requests, &plan, &mut line).await;
            }
            break;
        }
    }
    shared.spans().give_back(requests);
}

/// Resolves when there are other orders, without taking note of them.
async fn changed(orders: &watch::Receiver<Order>) -> bool {
    orders.clone().changed().await.is_ok()
}

/// Traced requests that are being sent.
struct Batch<'a> {
    #[expect(clippy::vec_box, reason = "as the channel has them: a request is moved once, when it is over")]
    requests: Vec<Box<TracedRequest>>,
    meters: CoreMeters,
    shared: &'a Shared,
}

impl Batch<'_> {
    /// Sends what is at hand, or waits for some; gives the pause that is to be made. Dropped, it loses nothing but
    /// may send something twice.
    async fn send_next(
        &mut self,
        requests: &mut mpsc::Receiver<Box<TracedRequest>>,
        plan: &Plan,
        line: &mut Line,
    ) -> Option<Duration> {
        if self.requests.is_empty() && requests.recv_many(&mut self.requests, BATCH_MAX).await == 0 {
            return None;
        }
        let message = traces::request(self.requests.iter().map(|request| &**request), plan.resource.clone());
        match line.send(message.encode_to_vec().into()).await {
            Sent::Taken(answer) => {
                let partial = ExportTraceServiceResponse::decode(answer).unwrap_or_default().partial_success;
                let partial = partial.unwrap_or_default();
                line.dropped(partial.rejected_spans, &partial.error_message);
                self.requests.clear();
                (requests.len() < BATCH_MAX).then_some(BATCH_TIME)
            }
            Sent::Later(pause) => Some(pause),
            Sent::Refused => {
                let lost = self.requests.len() as u64;
                self.meters.host().add_labelled(Meter::SPANS_LOST, SpansLost::Collector as usize, lost);
                self.meters.flush(self.shared.totals());
                self.requests.clear();
                Some(BATCH_TIME)
            }
        }
    }
}
