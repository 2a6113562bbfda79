//! What the demo sends, and the routes that say how it is called for.

use groupage_core::domain::{ItemId, TaskId, TaskMessage};
use serde_json::json;

use super::ledger::Parcel;
use super::trucks::MAX_KG;

/// The most parcels in one call.
pub const MAX_ITEMS: usize = 50;

/// A batch's window, in milliseconds.
pub const WAIT_MS: u64 = 2_000;

/// One parcel in this many is too heavy for any truck.
const HEAVY_ONE_IN: u32 = 200;

/// `number` parcels for `trucks` trucks, in turn.
pub fn parcels(number: u32, trucks: u32) -> Vec<Parcel> {
    (0..number)
        .map(|position| Parcel {
            id: format!("parcel-{position:06}"),
            truck: format!("truck-{:02}", position % trucks),
            kg: weight(position),
        })
        .collect()
}

fn weight(position: u32) -> u64 {
    if position % HEAVY_ONE_IN == HEAVY_ONE_IN - 1 { MAX_KG + 200 } else { u64::from(position * 37 % 400) + 1 }
}

/// A parcel as a task, for its owner's item.
pub fn message(parcel: &Parcel, item: Option<ItemId>) -> TaskMessage {
    let payload = json!({ "truck": parcel.truck, "kg": parcel.kg });
    TaskMessage {
        id: TaskId::new(&parcel.id),
        payload: payload.to_string(),
        item,
        list: None,
        event: None,
        not_before: None,
        expires_at: None,
        trace: None,
    }
}

/// The routes file of the demo: one call loads one truck.
pub fn routes(load_url: &str) -> String {
    format!(
        "version: 1
routes:
  - name: trucks
    target: truck
    batch: {{ max_items: {MAX_ITEMS}, wait_ms: {WAIT_MS} }}
    limits: {{ in_flight: 20 }}
    downstream:
      http: {{ url: \"{load_url}\", timeout_ms: 5000 }}
    retry: {{ attempts: 20, base_ms: 500, cap_ms: 4000 }}
"
    )
}

#[cfg(test)]
mod tests {
    use groupage_core::domain::task_message::parse;
    use groupage_core::routes::{Assigned, Routes};

    use super::*;

    #[test]
    fn parcels_go_to_the_trucks_in_turn_and_one_in_two_hundred_is_too_heavy() {
        let parcels = parcels(2_000, 20);
        assert_eq!(parcels.iter().filter(|parcel| parcel.truck == "truck-07").count(), 100);
        assert_eq!(parcels.iter().filter(|parcel| parcel.kg > MAX_KG).count(), 10);
    }

    #[test]
    fn every_parcel_is_a_task_that_the_routes_send_to_its_truck() {
        let routes = Routes::parse(&routes("http://127.0.0.1:1/load")).unwrap();
        for parcel in parcels(3, 2) {
            let message = message(&parcel, ItemId::parse("demo:0:7").ok());
            assert_eq!(parse(&message.body(), "other").unwrap(), message);
            let Ok(Assigned { target, .. }) = routes.assign(&message.payload) else {
                panic!("{parcel:?} has no route")
            };
            assert_eq!(target.value(), parcel.truck);
        }
    }
}
