//! octopus-codec
