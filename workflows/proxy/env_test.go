package proxy_test

import sdk "go.temporal.io/sdk/activity"

func activity(name string) sdk.RegisterOptions { return sdk.RegisterOptions{Name: name} }
