//! How a request went: which limit it has met, or why it failed.

/// How a request went; the names are those of Azure Files' metric Transactions. Limits hold requests and refuse none, so that
/// the first seven are all that they lead to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ResponseType {
    /// It met no limit.
    #[default]
    Success,
    /// It was held by a limit of its account or of its file.
    SuccessWithThrottling,
    /// It was held by what its share may send.
    SuccessWithShareEgressThrottling,
    /// It was held by what its share may receive.
    SuccessWithShareIngressThrottling,
    /// It was held by the operations that its share may do.
    SuccessWithShareIopsThrottling,
    /// The operations on metadata come close to their limit.
    SuccessWithMetadataWarning,
    /// It was held by the operations on metadata that its share may do.
    SuccessWithMetadataThrottling,
    /// It was refused, as its client has to expect: what is not there, or there already, or in use, or the end of a file.
    ClientOtherError,
    /// Its client let it take too long.
    ClientTimeoutError,
    /// The server had no room for it.
    ServerBusyError,
    /// The server's own storage took too long.
    ServerTimeoutError,
    /// It failed for another reason of the server's own.
    ServerOtherError,
    /// Who asked was not proved.
    AuthenticationError,
    /// Who asked may not do it.
    AuthorizationError,
}

impl ResponseType {
    /// All of them, in their order.
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

    /// Its name.
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

    /// Whether it went well, at once or later.
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
