//! The outcome of a request: the limit that it met, or the reason for its failure.

/// The outcome of a request, with the names of Azure Files' metric Transactions. Limits hold requests and
/// refuse none, so limits lead only to the first seven.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ResponseType {
    /// It met no limit.
    #[default]
    Success,
    /// It was held by a limit of its account or of its file.
    SuccessWithThrottling,
    /// It was held by the egress limit of its share.
    SuccessWithShareEgressThrottling,
    /// It was held by the ingress limit of its share.
    SuccessWithShareIngressThrottling,
    /// It was held by the limit on operations of its share.
    SuccessWithShareIopsThrottling,
    /// The metadata operations of its share are close to their limit.
    SuccessWithMetadataWarning,
    /// It was held by the limit on metadata operations of its share.
    SuccessWithMetadataThrottling,
    /// It was refused for a reason that its client has to expect: the object does not exist, or exists
    /// already, or is in use, or the file has ended.
    ClientOtherError,
    /// Its client let it take too long.
    ClientTimeoutError,
    /// The server had no room for it.
    ServerBusyError,
    /// The server's own storage took too long.
    ServerTimeoutError,
    /// It failed for another reason of the server's own.
    ServerOtherError,
    /// The client was not authenticated.
    AuthenticationError,
    /// The client may not do it.
    AuthorizationError,
}

impl ResponseType {
    /// All outcomes, in their order.
    pub const ALL: [ResponseType; 14] = [
        ResponseType::Success,
        ResponseType::SuccessWithThrottling,
        ResponseType::SuccessWithShareEgressThrottling,
        ResponseType::SuccessWithShareIngressThrottling,
        ResponseType::SuccessWithShareIopsThrottling,
        ResponseType::SuccessWithMetadataWarning,
        ResponseType::SuccessWithMetadataThrottling,
        ResponseType::ClientOtherError,
        ResponseType::ClientTimeoutError,
        ResponseType::ServerBusyError,
        ResponseType::ServerTimeoutError,
        ResponseType::ServerOtherError,
        ResponseType::AuthenticationError,
        ResponseType::AuthorizationError,
    ];

    /// The name of the outcome in the metric.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ResponseType::Success => "Success",
            ResponseType::SuccessWithThrottling => "SuccessWithThrottling",
            ResponseType::SuccessWithShareEgressThrottling => "SuccessWithShareEgressThrottling",
            ResponseType::SuccessWithShareIngressThrottling => "SuccessWithShareIngressThrottling",
            ResponseType::SuccessWithShareIopsThrottling => "SuccessWithShareIopsThrottling",
            ResponseType::SuccessWithMetadataWarning => "SuccessWithMetadataWarning",
            ResponseType::SuccessWithMetadataThrottling => "SuccessWithMetadataThrottling",
            ResponseType::ClientOtherError => "ClientOtherError",
            ResponseType::ClientTimeoutError => "ClientTimeoutError",
            ResponseType::ServerBusyError => "ServerBusyError",
            ResponseType::ServerTimeoutError => "ServerTimeoutError",
            ResponseType::ServerOtherError => "ServerOtherError",
            ResponseType::AuthenticationError => "AuthenticationError",
            ResponseType::AuthorizationError => "AuthorizationError",
        }
    }

    /// Whether the request succeeded, at once or after a wait.
    #[inline]
    #[must_use]
    pub const fn is_success(self) -> bool {
        (self as usize) < ResponseType::ClientOtherError as usize
    }
}

impl std::fmt::Display for ResponseType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_them_stand_in_their_order_and_say_how_they_went() {
        for (at, kind) in ResponseType::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
            assert_eq!(kind.is_success(), kind.name().starts_with("Success"), "{kind}");
        }
    }
}
