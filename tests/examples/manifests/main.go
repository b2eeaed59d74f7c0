// Decodes the documents of YAML files as objects of Kubernetes. An unknown kind, field or type of a value is an error.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

func main() {
	scheme := runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(scheme))
	utilruntime.Must(appsv1.AddToScheme(scheme))
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	failed := false
	for _, path := range os.Args[1:] {
		file, err := os.Open(path)
		utilruntime.Must(err)
		documents := yaml.NewYAMLReader(bufio.NewReader(file))
		for {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			utilruntime.Must(err)
			_, kind, err := decoder.Decode(document, nil, nil)
			if err != nil {
				fmt.Printf("%s: %v\n", path, err)
				failed = true
				continue
			}
			fmt.Println(kind.Kind)
		}
	}
	if failed {
		os.Exit(1)
	}
}
