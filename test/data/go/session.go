// Makes every call of a session with the published Go SDK. A person runs it, as docs/clients.md explains.
package main

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/kernel/kernel-go-sdk"
	"github.com/kernel/kernel-go-sdk/option"
)

// The address of the service's own /health as the browser sees it (COB_ALLOW_HOST_LOOPBACK=1), or any other page.
var page = os.Getenv("PAGE")

func check(what string, err error) {
	if err != nil {
		log.Fatalf("%s: %v", what, err)
	}
	fmt.Println("ok", what)
}

func expect(what string, is bool) {
	if !is {
		log.Fatalf("%s: not as expected", what)
	}
	fmt.Println("ok", what)
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	client := kernel.NewClient(option.WithMaxRetries(0))

	made, err := client.Browsers.New(ctx, kernel.BrowserNewParams{Headless: kernel.Bool(true), Name: kernel.String("go trial")})
	check("create", err)
	id := made.SessionID
	defer func() { check("delete", client.Browsers.DeleteByID(ctx, id)) }()
	found, err := client.Browsers.Get(ctx, "go trial", kernel.BrowserGetParams{})
	check("get by name", err)
	expect("region and memory", found.Region != "" && found.Memory != "")

	for _, called := range []string{id, "go trial"} {
		ran, err := client.Browsers.Process.Exec(ctx, called, kernel.BrowserProcessExecParams{Command: "sh", Args: []string{"-c", "exit 3"}})
		check("exec", err)
		expect("its exit code", ran.ExitCode == 3)
		check("write a file", client.Browsers.Fs.WriteFile(ctx, called, bytes.NewReader([]byte("one\ntwo\n")), kernel.BrowserFWriteFileParams{Path: "/tmp/a.txt"}))
		read, err := client.Browsers.Fs.ReadFile(ctx, called, kernel.BrowserFReadFileParams{Path: "/tmp/a.txt"})
		check("read it", err)
		text, _ := io.ReadAll(read.Body)
		expect("its content", string(text) == "one\ntwo\n")
		check("upload two files", client.Browsers.Fs.Upload(ctx, called, kernel.BrowserFUploadParams{Files: []kernel.BrowserFUploadParamsFile{
			{DestPath: "/tmp/up/1", File: bytes.NewReader([]byte("1"))}, {DestPath: "/tmp/up/2", File: bytes.NewReader([]byte("2"))},
		}}))
		listed, err := client.Browsers.Fs.ListFiles(ctx, called, kernel.BrowserFListFilesParams{Path: "/tmp/up"})
		check("list them", err)
		expect("both", len(*listed) == 2)
		lines := 0
		stream := client.Browsers.Logs.StreamStreaming(ctx, called, kernel.BrowserLogStreamParams{Source: "path", Path: kernel.String("/tmp/a.txt"), Follow: kernel.Bool(false)})
		for stream.Next() {
			lines++
		}
		check("stream a log", stream.Err())
		expect("its lines", lines == 2)
		picture, err := client.Browsers.Computer.CaptureScreenshot(ctx, called, kernel.BrowserComputerCaptureScreenshotParams{})
		check("screenshot", err)
		png, _ := io.ReadAll(picture.Body)
		expect("a PNG", bytes.HasPrefix(png, []byte("\x89PNG")))
		check("batch", client.Browsers.Computer.Batch(ctx, called, kernel.BrowserComputerBatchParams{Actions: []kernel.BrowserComputerBatchParamsAction{
			{Type: "sleep", Sleep: kernel.BrowserComputerBatchParamsActionSleep{DurationMs: 1}},
		}}))
		played, err := client.Browsers.Playwright.Execute(ctx, called, kernel.BrowserPlaywrightExecuteParams{Code: "return 6 * 7"})
		check("playwright", err)
		expect("its result", played.Success)
		if page != "" {
			got, err := client.Browsers.Curl(ctx, called, kernel.BrowserCurlParams{URL: page})
			check("curl", err)
			expect("its status", got.Status == 200)
		}
	}

	film, err := client.Browsers.Replays.Start(ctx, id, kernel.BrowserReplayStartParams{})
	check("start a replay", err)
	check("stop it", client.Browsers.Replays.Stop(ctx, film.ReplayID, kernel.BrowserReplayStopParams{ID: id}))
	video, err := client.Browsers.Replays.Download(ctx, film.ReplayID, kernel.BrowserReplayDownloadParams{ID: id})
	check("download it", err)
	mp4, _ := io.ReadAll(video.Body)
	expect("an MP4", len(mp4) > 8 && string(mp4[4:8]) == "ftyp")

	_, err = client.Browsers.Update(ctx, id, kernel.BrowserUpdateParams{}, option.WithJSONSet("telemetry", map[string]any{"enabled": true}))
	check("capture telemetry", err)
	telemetry := client.Browsers.Telemetry.StreamStreaming(ctx, id, kernel.BrowserTelemetryStreamParams{Replay: kernel.String("all")})
	_, err = client.Browsers.Computer.GetMousePosition(ctx, id)
	check("make an event", err)
	expect("it is streamed", telemetry.Next() && telemetry.Current().Seq > 0)
	check("end the stream", telemetry.Close())
	kept := client.Browsers.Telemetry.EventsAutoPaging(ctx, id, kernel.BrowserTelemetryEventsParams{})
	for kept.Next() {
	}
	check("read the archive", kept.Err())

	pages := client.Browsers.ListAutoPaging(ctx, kernel.BrowserListParams{Limit: kernel.Int(1)})
	for pages.Next() {
	}
	check("list", pages.Err())

	archive := new(bytes.Buffer)
	writer := zip.NewWriter(archive)
	entry, _ := writer.Create("index.js")
	_, _ = entry.Write([]byte("throw new Error('nothing to run')\n"))
	_ = writer.Close()
	code, err := client.Deployments.New(ctx, kernel.DeploymentNewParams{
		File: kernel.File(archive, "app.zip", "application/zip"), EntrypointRelPath: kernel.String("index.js"), EnvVars: map[string]string{"A": "2"}, Force: kernel.Bool(true),
	})
	check("deploy an archive", err)
	_, given := code.EnvVars["A"]
	expect("with its variable", given)
	check("delete it", client.Deployments.Delete(ctx, code.ID))
	git, err := client.Deployments.New(ctx, kernel.DeploymentNewParams{EnvVars: map[string]string{"A": "2"}, Version: kernel.String(fmt.Sprint(time.Now().UnixNano())),
		Source: kernel.DeploymentNewParamsSource{
			Type: "github", URL: "https://github.com/owner/repo", Ref: "main", Entrypoint: "index.ts", Path: kernel.String("app"),
			Auth: kernel.DeploymentNewParamsSourceAuth{Method: "github_token", Token: "none"},
		}})
	check("deploy a repository", err)
	check("delete it", client.Deployments.Delete(ctx, git.ID))
}
