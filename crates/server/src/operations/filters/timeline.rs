//! Filter of the timeline: it records each request of a test server with its answer and the fields that it changed.

use super::{Completion, Exchange, Filter, Step};
use crate::api::context::Context;
use crate::http::response::Response;
use crate::operations::testing::{self, AnsweredRequest, TimelineFacts};
use crate::runtime::timeline::Timeline;

/// Filter that records requests, if the server has a timeline.
pub(super) struct WithTimeline<'a> {
    pub(super) timeline: Option<&'a Timeline>,
    pub(super) context: &'a Context,
}

impl Filter for WithTimeline<'_> {
    fn request<'f>(&'f self, exchange: &'f mut Exchange<'_>) -> Step<'f> {
        if self.timeline.is_some() && testing::is_recorded(&exchange.info.path) {
            exchange.timeline = Some(Box::new(TimelineFacts::new(self.context, &exchange.info)));
        }
        Step::Pass
    }

    fn response<'f>(&'f self, exchange: &'f mut Exchange<'_>, response: &'f mut Response) -> Completion<'f> {
        if let (Some(timeline), Some(facts)) = (self.timeline, exchange.timeline.take()) {
            let request = AnsweredRequest {
                method: &exchange.head.method,
                uri: &exchange.head.uri,
                received: exchange.received,
                duration: exchange.started.elapsed(),
                user: exchange.user.as_deref(),
                user_agent: exchange.user_agent.as_ref(),
            };
            facts.record(timeline, self.context, &request, response);
        }
        Completion::Done
    }
}
