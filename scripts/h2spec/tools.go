//go:build tools

// Package tools pins h2spec, the HTTP/2 conformance tests that `make test` runs, and what it is built from:
// versions that Debian 12's Go compiles, with their checksums.
package tools

import _ "github.com/summerwind/h2spec/cmd/h2spec"
