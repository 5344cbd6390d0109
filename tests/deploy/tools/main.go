// Command strict reads YAML documents from its input and decodes each into the published Go type of
// its apiVersion and kind, refusing unknown fields and values of other types. It is for what the
// apiserver of the tests does not know: custom resources, and configuration of older releases.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/kube-scheduler/config/v1beta2"
	"k8s.io/kube-scheduler/config/v1beta3"
	sigsyaml "sigs.k8s.io/yaml"
)

var types = map[string]func() any{
	"cert-manager.io/v1 Certificate":                                 func() any { return new(certmanager.Certificate) },
	"monitoring.coreos.com/v1 ServiceMonitor":                        func() any { return new(monitoring.ServiceMonitor) },
	"kubescheduler.config.k8s.io/v1beta2 KubeSchedulerConfiguration": func() any { return new(v1beta2.KubeSchedulerConfiguration) },
	"kubescheduler.config.k8s.io/v1beta3 KubeSchedulerConfiguration": func() any { return new(v1beta3.KubeSchedulerConfiguration) },
}

func check(document []byte) error {
	var meta struct{ APIVersion, Kind string }
	if err := sigsyaml.Unmarshal(document, &meta); err != nil {
		return err
	}
	name := meta.APIVersion + " " + meta.Kind
	create, ok := types[name]
	if !ok {
		return fmt.Errorf("%s: no such type here", name)
	}
	if err := sigsyaml.UnmarshalStrict(document, create()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func run(in io.Reader) error {
	documents := yaml.NewYAMLReader(bufio.NewReader(in))
	for count := 0; ; count++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			if count == 0 {
				return errors.New("no document")
			}
			return nil
		}
		if err == nil {
			err = check(document)
		}
		if err != nil {
			return err
		}
	}
}

func main() {
	if err := run(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
