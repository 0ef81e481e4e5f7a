//! The public edge: thin, one pipeline from request to response.
