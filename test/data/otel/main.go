// An OpenTelemetry Collector for tests: the real receiver of OTLP/HTTP, and an exporter that writes what it has accepted as lines of JSON to a file.
package main

import (
	"context"
	"log"
	"os"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

type config struct {
	Path string `mapstructure:"path"`
}

// lines appends each batch to one file in one write.
type lines struct {
	mutex sync.Mutex
	path  string
}

func (l *lines) Start(context.Context, component.Host) error { return nil }
func (l *lines) Shutdown(context.Context) error              { return nil }
func (l *lines) Capabilities() consumer.Capabilities         { return consumer.Capabilities{} }
func (l *lines) write(text []byte, err error) error {
	if err != nil {
		return err
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	file, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.Write(append(text, '\n'))
	return err
}
func (l *lines) ConsumeLogs(_ context.Context, logs plog.Logs) error {
	return l.write((&plog.JSONMarshaler{}).MarshalLogs(logs))
}
func (l *lines) ConsumeTraces(_ context.Context, traces ptrace.Traces) error {
	return l.write((&ptrace.JSONMarshaler{}).MarshalTraces(traces))
}

func linesFactory() exporter.Factory {
	return exporter.NewFactory(component.MustNewType("lines"), func() component.Config { return &config{} },
		exporter.WithLogs(func(_ context.Context, _ exporter.Settings, c component.Config) (exporter.Logs, error) {
			return &lines{path: c.(*config).Path}, nil
		}, component.StabilityLevelDevelopment),
		exporter.WithTraces(func(_ context.Context, _ exporter.Settings, c component.Config) (exporter.Traces, error) {
			return &lines{path: c.(*config).Path}, nil
		}, component.StabilityLevelDevelopment))
}

func factories() (otelcol.Factories, error) {
	otlp, own := otlpreceiver.NewFactory(), linesFactory()
	return otelcol.Factories{
		Receivers: map[component.Type]receiver.Factory{otlp.Type(): otlp},
		Exporters: map[component.Type]exporter.Factory{own.Type(): own},
		Telemetry: otelconftelemetry.NewFactory(),
	}, nil
}

func main() {
	settings := otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "collector", Description: "collector for tests", Version: "1.0.0"},
		Factories: factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			DefaultScheme:     "file",
			ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory(), yamlprovider.NewFactory()},
		}},
	}
	if err := otelcol.NewCommand(settings).Execute(); err != nil {
		log.Fatal(err)
	}
}
