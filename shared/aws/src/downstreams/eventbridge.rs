//! EventBridge buses: a batch becomes one event, which is accepted or not.

use std::time::Duration;

use aws_sdk_eventbridge::Client;
use aws_sdk_eventbridge::operation::put_events::PutEventsOutput;
use aws_sdk_eventbridge::types::PutEventsRequestEntry;
use groupage_core::ports::{Answer, Call, NoAnswer};
use groupage_core::routes::downstream::EventBridge;

use super::sdk::{Lazy, accepted, said, within};

/// Puts one event on the bus.
pub(crate) async fn call(
    client: &Lazy<Client>,
    bus: &EventBridge,
    call: &Call<'_>,
    timeout: Duration,
) -> Result<Answer, NoAnswer> {
    let event = PutEventsRequestEntry::builder()
        .event_bus_name(&bus.bus)
        .source(&bus.source)
        .detail_type(&bus.detail_type)
        .detail(&call.body)
        .build();
    within(timeout, client.get(Client::new).put_events().entries(event).send(), |output| read(&output), |_| None).await
}

/// The request can succeed while its event fails.
fn read(output: &PutEventsOutput) -> Result<Answer, NoAnswer> {
    match output.entries() {
        [entry] if entry.event_id().is_some() && entry.error_code().is_none() => Ok(accepted()),
        entries => said(entries.first().and_then(|entry| entry.error_code()), 200),
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_eventbridge::types::PutEventsResultEntry;
    use groupage_core::domain::outcome::Reason;

    use super::*;

    fn output(entry: Option<PutEventsResultEntry>) -> PutEventsOutput {
        PutEventsOutput::builder().failed_entry_count(1).set_entries(entry.map(|entry| vec![entry])).build()
    }

    #[test]
    fn an_event_that_failed_in_a_request_that_did_not_is_not_taken_for_sent() {
        let failed = |code: &str| read(&output(Some(PutEventsResultEntry::builder().error_code(code).build())));
        assert_eq!(failed("ThrottlingException").unwrap().status, 429);
        assert_eq!(failed("InternalFailure"), Err(NoAnswer::Other(Reason::new("InternalFailure"))));
        assert_eq!(failed("MalformedDetail"), Err(NoAnswer::Refused(Reason::new("MalformedDetail"))));
        assert!(read(&output(None)).is_err(), "no entry is no event");
        assert_eq!(read(&output(Some(PutEventsResultEntry::builder().event_id("e").build()))), Ok(accepted()));
    }
}
