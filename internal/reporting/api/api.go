// Package api is the Reporting API as its document says: types, a bare client and
// the routes of a server, all generated from openapi.yaml. Callers use package
// reporting, which knows what the answers mean.
package api

import _ "embed"

//go:generate go tool -modfile=oapi-codegen.mod oapi-codegen -config generate.yaml -o api.gen.go openapi.yaml

// Document is the OpenAPI document of the Reporting API.
//
//go:embed openapi.yaml
var Document []byte
