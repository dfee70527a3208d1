package main

import (
	"fmt"
	"os"

	uiserver "github.com/temporalio/ui-server/v2/server"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	uioptions "github.com/temporalio/ui-server/v2/server/server_options"
)

// startUI serves the Web UI and returns what stops it. It asks nothing of other
// machines: no news, no version check.
func startUI(o *options, frontend string) (stop func()) {
	ui := uiserver.NewServer(uioptions.WithConfigProvider(&uiconfig.Config{
		TemporalGRPCAddress: frontend,
		Host:                o.ui.ip,
		Port:                o.uiPort,
		PublicPath:          o.ui.publicPath,
		UIAssetPath:         o.ui.assetPath,
		EnableUI:            true,
		DefaultNamespace:    defaultNamespace,
		HideLogs:            true,
		DisableNewsFetch:    true,
		CORS: uiconfig.CORS{
			AllowOrigins: o.ui.corsOrigins,
			// Loopback is plain HTTP, where a Secure cookie would be dropped.
			CookieInsecure: true,
		},
		Codec: uiconfig.Codec{
			Endpoint:           o.ui.codecEndpoint,
			IncludeCredentials: o.ui.codecCredentials,
		},
	}))
	go func() {
		if err := ui.Start(); err != nil {
			fmt.Fprintln(os.Stderr, "web ui:", err)
		}
	}()
	return ui.Stop
}
