package kubernetes

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Labels of ours beside the marks.
const (
	// labelInstance is the name of the Pod, on it and on what belongs to it.
	labelInstance = "tollgate-instance"
	// labelParts says what was made beside the Pod, labelExpose where clients
	// connect.
	labelParts  = "tollgate-parts"
	labelExpose = "tollgate-expose"
	// ourLabels is what names of labels of ours begin with.
	ourLabels = "tollgate-"

	labelApp     = "app.kubernetes.io/name"
	labelManager = "app.kubernetes.io/managed-by"
)

// hashed begins a label that stands for a value which no label can hold; the
// value itself is an annotation of the same name.
const hashed = "sha256-"

// encode renders a mark's value as a label.
func encode(value string) string {
	if len(validation.IsValidLabelValue(value)) == 0 && !strings.HasPrefix(value, hashed) {
		return value
	}
	sum := sha256.Sum256([]byte(value))
	return hashed + hex.EncodeToString(sum[:16])
}

// writeMarks puts the marks onto an object, as labels and, where a label cannot
// hold a value, as annotations.
func writeMarks(meta *metav1.ObjectMeta, m provider.Marks) {
	if meta.Labels == nil {
		meta.Labels = map[string]string{}
	}
	for k, v := range m.Labels() {
		meta.Labels[k] = encode(v)
		if meta.Labels[k] == v {
			continue
		}
		if meta.Annotations == nil {
			meta.Annotations = map[string]string{}
		}
		meta.Annotations[k] = v
	}
}

// MarksOf reads the marks of an object. managed is false, and the marks empty,
// when the managed mark is missing. An annotation counts only if the label is
// its hash.
func MarksOf(labels, annotations map[string]string) (m provider.Marks, managed bool) {
	read := maps.Clone(labels)
	for k, label := range read {
		if v, ok := annotations[k]; ok && strings.HasPrefix(label, hashed) && encode(v) == label {
			read[k] = v
		}
	}
	if m, managed = provider.MarksFromLabels(read); !managed {
		return provider.Marks{}, false
	}
	return m, true
}

// selectorOf is the label selector of what carries the managed mark and matches.
func selectorOf(sel provider.Selector) string {
	labels := provider.Marks{Installation: sel.Installation, UID: sel.UID, Namespace: sel.Namespace, Proxy: sel.Proxy}.Labels()
	terms := make([]string, 0, len(labels))
	for k, v := range labels {
		terms = append(terms, k+"="+encode(v))
	}
	slices.Sort(terms)
	return strings.Join(terms, ",")
}
