package gardener

import (
	corev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/client-go/gentype"
)

// Clients of cloud profiles.
type (
	CloudProfiles           = gentype.ClientWithList[*corev1beta1.CloudProfile, *corev1beta1.CloudProfileList]
	NamespacedCloudProfiles = gentype.ClientWithList[*corev1beta1.NamespacedCloudProfile, *corev1beta1.NamespacedCloudProfileList]
)

// CloudProfiles belong to no namespace: the operators of a Gardener write them.
func (c *Client) CloudProfiles() *CloudProfiles {
	return gentype.NewClientWithList("cloudprofiles", c.core, parameterCodec, "",
		func() *corev1beta1.CloudProfile { return &corev1beta1.CloudProfile{} },
		func() *corev1beta1.CloudProfileList { return &corev1beta1.CloudProfileList{} })
}

// NamespacedCloudProfiles are those of a namespace; "" is all. Members of a
// project write them.
func (c *Client) NamespacedCloudProfiles(namespace string) *NamespacedCloudProfiles {
	return gentype.NewClientWithList("namespacedcloudprofiles", c.core, parameterCodec, namespace,
		func() *corev1beta1.NamespacedCloudProfile { return &corev1beta1.NamespacedCloudProfile{} },
		func() *corev1beta1.NamespacedCloudProfileList { return &corev1beta1.NamespacedCloudProfileList{} })
}
