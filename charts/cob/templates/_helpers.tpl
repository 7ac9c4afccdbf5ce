{{- define "cob.fullname" -}}
{{- if eq .Release.Name "cob" }}cob{{ else }}{{ printf "%s-cob" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "cob.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "cob.sessions.namespace" -}}
{{ .Values.sessions.namespace | default .Release.Namespace }}
{{- end }}

{{- define "cob.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "cob.fullname" .) }}{{ else }}{{ .Values.serviceAccount.name | default "default" }}{{ end }}
{{- end }}

{{/* The driver's network policies name the first of these together with the component. */}}
{{- define "cob.selector" -}}
app.kubernetes.io/name: cob
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "cob.labels" -}}
{{ include "cob.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "cob.publicUrl" -}}
{{- if .Values.publicUrl }}{{ .Values.publicUrl }}
{{- else if .Values.ingress.enabled }}{{ ternary "https" "http" (ne .Values.ingress.tlsSecret "") }}://{{ .Values.ingress.host }}
{{- end }}
{{- end }}

{{/* On nodes that the DaemonSet has made ready. Two releases do not share it: each takes its own away. */}}
{{- define "cob.nodeLabel" -}}
{{- if and .Values.seccomp.enabled .Values.seccomp.labelNodes }}cob.dev/{{ printf "%s.%s" .Release.Namespace (include "cob.fullname" .) | trunc 63 | trimSuffix "-" | trimSuffix "." }}{{ end }}
{{- end }}

{{- define "cob.sessions.nodeSelector" -}}
{{- $selector := deepCopy .Values.sessions.nodeSelector -}}
{{- with include "cob.nodeLabel" . }}{{ $_ := set $selector . "ready" }}{{ end -}}
{{- include "cob.nodeSelectorText" $selector -}}
{{- end }}

{{- define "cob.seccomp.namespace" -}}
{{ .Values.seccomp.namespace | default .Release.Namespace }}
{{- end }}

{{- define "cob.nodeSelectorText" -}}
{{- $pairs := list -}}
{{- range $key, $value := . }}{{ $pairs = append $pairs (printf "%s=%v" $key $value) }}{{ end -}}
{{- join "," $pairs -}}
{{- end }}

{{/* name, secret and key as a list; a fourth element: it may be absent */}}
{{- define "cob.fromSecret" -}}
- name: {{ index . 0 }}
  valueFrom:
    secretKeyRef:
      name: {{ index . 1 }}
      key: {{ index . 2 }}
      {{- if gt (len .) 3 }}
      optional: true
      {{- end }}
{{- end }}

{{- define "cob.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{- define "cob.uninstall.hook" -}}
helm.sh/hook: post-delete
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
