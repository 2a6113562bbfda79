//! What a store hands on to the store in its field `inner` as it is, trait by trait.

/// Every call of `Streams`.
macro_rules! streams {
    () => {
        async fn open_stream(&self, stream: &Stream) -> Result<StreamOpened> {
            self.inner.open_stream(stream).await
        }

        async fn stream(&self, id: &StreamId) -> Result<Option<Stream>> {
            self.inner.stream(id).await
        }

        async fn see(&self, life: &Life, nodes: &[NodeId]) -> Result<Seen> {
            self.inner.see(life, nodes).await
        }

        async fn feed(&self, fed: &Stream, page: &Page) -> Result<Stored> {
            self.inner.feed(fed, page).await
        }

        async fn commit(&self, stream: &Stream) -> Result<Stored> {
            self.inner.commit(stream).await
        }

        async fn mark_events(&self, life: &Life, change: &Change) -> Result<Marked> {
            self.inner.mark_events(life, change).await
        }

        async fn stream_nodes(&self, life: &Life, from: NodeId, limit: usize) -> Result<Vec<Node>> {
            self.inner.stream_nodes(life, from, limit).await
        }

        async fn drop_nodes(&self, life: &Life, nodes: &[NodeId]) -> Result<()> {
            self.inner.drop_nodes(life, nodes).await
        }

        async fn pages(&self, life: &Life, from: u64, to: u64, limit: usize) -> Result<Vec<Page>> {
            self.inner.pages(life, from, to, limit).await
        }

        async fn drop_pages(&self, life: &Life, starts: &[u64]) -> Result<()> {
            self.inner.drop_pages(life, starts).await
        }

        async fn due_streams(&self, part: Part, before: Timestamp, limit: usize) -> Result<Vec<StreamId>> {
            self.inner.due_streams(part, before, limit).await
        }

        async fn remove_stream(&self, stream: &Stream) -> Result<Stored> {
            self.inner.remove_stream(stream).await
        }
    };
}

/// Every call of `Lanes`.
macro_rules! lanes {
    () => {
        crate::pass::lanes_but_line_up!();

        async fn line_up(&self, lane: &Lane, is_new: bool, newcomers: &[Newcomer]) -> Result<LinedUp> {
            self.inner.line_up(lane, is_new, newcomers).await
        }
    };
}

/// Every call of `Lanes` but `line_up`.
macro_rules! lanes_but_line_up {
    () => {
        async fn lane(&self, id: &LaneId) -> Result<Option<Lane>> {
            self.inner.lane(id).await
        }

        async fn store_lane(&self, lane: &Lane) -> Result<Stored> {
            self.inner.store_lane(lane).await
        }

        async fn queued(&self, id: &LaneId, from: Turn, to: Turn, limit: usize) -> Result<Vec<Queued>> {
            self.inner.queued(id, from, to, limit).await
        }

        async fn stopped(&self, route: &RouteName, limit: usize) -> Result<Vec<LaneId>> {
            self.inner.stopped(route, limit).await
        }

        async fn leave(&self, id: &LaneId, queued: &[Queued]) -> Result<()> {
            self.inner.leave(id, queued).await
        }
    };
}

/// Every call of `Trackers`.
macro_rules! trackers {
    () => {
        async fn open_tracker(&self, tracker: &Tracker) -> Result<Opened> {
            self.inner.open_tracker(tracker).await
        }

        async fn look(&self, id: &TrackerId, nodes: &[NodeId], freshness: Freshness) -> Result<Looked> {
            self.inner.look(id, nodes, freshness).await
        }

        async fn store_tracker(&self, tracker: &Tracker) -> Result<Stored> {
            self.inner.store_tracker(tracker).await
        }

        async fn add(&self, grown: &Tracker, addition: &Addition) -> Result<Added> {
            self.inner.add(grown, addition).await
        }

        async fn addition(&self, id: &TrackerId, key: &str) -> Result<Option<Addition>> {
            self.inner.addition(id, key).await
        }

        async fn mark(&self, id: &TrackerId, change: &Change) -> Result<Marked> {
            self.inner.mark(id, change).await
        }

        async fn nodes(&self, id: &TrackerId, from: NodeId, limit: usize, freshness: Freshness) -> Result<Vec<Node>> {
            self.inner.nodes(id, from, limit, freshness).await
        }

        async fn due_trackers(&self, part: Part, before: Timestamp, limit: usize) -> Result<Vec<TrackerId>> {
            self.inner.due_trackers(part, before, limit).await
        }

        async fn clear(&self, tracker: &Tracker) -> Result<Cleared> {
            self.inner.clear(tracker).await
        }

        async fn remove_tracker(&self, tracker: &Tracker) -> Result<Stored> {
            self.inner.remove_tracker(tracker).await
        }
    };
}

/// Every call of `Lists`.
macro_rules! lists {
    () => {
        crate::pass::lists_but_put_and_slots!();

        async fn put_on_list(&self, put: &Put) -> Result<PutOn> {
            self.inner.put_on_list(put).await
        }

        async fn slots(&self, life: &Life, from: Token, to: Token, limit: usize) -> Result<Vec<Slot>> {
            self.inner.slots(life, from, to, limit).await
        }
    };
}

/// Every call of `Lists` but `put_on_list` and `slots`.
macro_rules! lists_but_put_and_slots {
    () => {
        async fn list(&self, id: &ListId) -> Result<Option<List>> {
            self.inner.list(id).await
        }

        async fn additions(&self, life: &Life, keys: &[String]) -> Result<Vec<list::Addition>> {
            self.inner.additions(life, keys).await
        }

        async fn move_head(&self, life: &Life, next: &Move) -> Result<Moved> {
            self.inner.move_head(life, next).await
        }

        async fn record(&self, life: &Life, key: &str) -> Result<Option<Record>> {
            self.inner.record(life, key).await
        }

        async fn store_record(&self, life: &Life, record: &Record, now: Timestamp) -> Result<Stored> {
            self.inner.store_record(life, record, now).await
        }

        async fn remove_slots(&self, life: &Life, tokens: &[Token]) -> Result<()> {
            self.inner.remove_slots(life, tokens).await
        }

        async fn store_tail(&self, tail: &Tail) -> Result<Stored> {
            self.inner.store_tail(tail).await
        }

        async fn due_lists(&self, part: Part, before: Timestamp, limit: usize) -> Result<Vec<ListId>> {
            self.inner.due_lists(part, before, limit).await
        }

        async fn clear_list(&self, life: &Life) -> Result<Cleared> {
            self.inner.clear_list(life).await
        }

        async fn remove_list(&self, tail: &Tail) -> Result<Stored> {
            self.inner.remove_list(tail).await
        }
    };
}

pub(crate) use {lanes, lanes_but_line_up, lists, lists_but_put_and_slots, streams, trackers};
