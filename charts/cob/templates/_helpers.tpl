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

{{/* Replicas of two versions must not run at the same time. Where the cluster cannot be asked (helm template), the image counts as new. */}}
{{- define "cob.strategy" -}}
{{- $type := .Values.strategy -}}
{{- if eq $type "auto" -}}
  {{- $type = "Recreate" -}}
  {{- with lookup "apps/v1" "Deployment" .Release.Namespace (include "cob.fullname" .) -}}
    {{- if eq (index .spec.template.spec.containers 0).image (include "cob.image" $) -}}{{- $type = "RollingUpdate" -}}{{- end -}}
  {{- end -}}
{{- end -}}
type: {{ $type }}
{{- if eq $type "RollingUpdate" }}
rollingUpdate: { maxSurge: 1, maxUnavailable: 0 }
{{- end }}
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
