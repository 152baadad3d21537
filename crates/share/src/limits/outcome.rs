//! Which limit a request has met.

/// How a request went, as far as limits are concerned; the names are those of Azure Files' metric Transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ResponseType {
    /// It met none.
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
}

impl ResponseType {
    /// All of them.
    pub const ALL: [ResponseType; 7] = [
        ResponseType::Success,
        ResponseType::SuccessWithThrottling,
        ResponseType::SuccessWithShareEgressThrottling,
        ResponseType::SuccessWithShareIngressThrottling,
        ResponseType::SuccessWithShareIopsThrottling,
        ResponseType::SuccessWithMetadataWarning,
        ResponseType::SuccessWithMetadataThrottling,
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
        }
    }
}

impl std::fmt::Display for ResponseType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
