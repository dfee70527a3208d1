package activities

// ProxyRef names a proxy.
type ProxyRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// RetryProxiesInput tells some proxies to try again.
type RetryProxiesInput struct {
	Provider string     `json:"provider"`
	Proxies  []ProxyRef `json:"proxies"`
}
