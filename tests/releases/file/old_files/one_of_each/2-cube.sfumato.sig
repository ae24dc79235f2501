{
  "algorithm": "Ed25519",
  "digest": "39ab5bbd085cb18836ae39240322a41e92980904189217d0f1487f435a9135bf",
  "format": "sfumato-signature",
  "public_key": "C/e1fysb9pR/JiP/JVIBL3wCAmmM3EejoRmX/vGeayg=",
  "signature": "sUidYDTI3l9LnIGW2C6wsDiNK1u4fpcS1yYSJ8CEB1Uw0URrjMo0R0b7R2wtSgHnXB97sHbXupGb2TZApkuSAA==",
  "version": 1
}
