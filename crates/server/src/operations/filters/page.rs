//! Filter of the page at `/ui`.

use super::{Exchange, Filter, Step};

/// Filter that answers requests for the files of the page. It precedes authentication: the files are the same for everyone.
pub(super) struct WithPage {
    pub(super) is_enabled: bool,
}

impl Filter for WithPage {
    fn request<'f>(&'f self, exchange: &'f mut Exchange<'_>) -> Step<'f> {
        if !self.is_enabled || !exchange.info.path.starts_with(holdfast_ui::PATH) {
            return Step::Pass;
        }
        match holdfast_ui::respond(&exchange.head.method, &exchange.info.path, &exchange.head.headers) {
            Some(answer) => Step::answer(answer.map(Into::into)),
            None => Step::Pass,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::super::testing::{Reply, exchange};
    use super::*;

    #[tokio::test]
    async fn page_is_answered_only_if_enabled() {
        for (is_enabled, path, status) in [
            (true, "/ui/", StatusCode::OK),
            (true, "/ui/other", StatusCode::IM_A_TEAPOT),
            (true, "/api", StatusCode::IM_A_TEAPOT),
            (false, "/ui/", StatusCode::IM_A_TEAPOT),
        ] {
            let handler = Reply::UNREACHABLE.behind(WithPage { is_enabled });
            let answer = handler.handle(&mut exchange("GET", path)).await;
            assert_eq!(answer.status(), status, "{path}");
        }
    }
}
