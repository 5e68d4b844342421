{
  description = "Holdfast, a Kubernetes-compatible API server in one binary";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" "x86_64-darwin" "aarch64-darwin" ];
      forEach = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
    in
    {
      packages = forEach (pkgs: rec {
        default = holdfast;
        holdfast = pkgs.rustPlatform.buildRustPackage {
          pname = "holdfast";
          version = (pkgs.lib.importTOML ./Cargo.toml).workspace.package.version;
          src = self;
          cargoLock.lockFile = ./Cargo.lock;
          buildAndTestSubdir = "crates/holdfast";
          buildType = "dist";
          env.CARGO_PROFILE_DIST_STRIP = "symbols";
          nativeBuildInputs = [ pkgs.cmake pkgs.perl pkgs.installShellFiles ];
          # The tests of the workspace need kubectl and the network.
          doCheck = false;
          postInstall = pkgs.lib.optionalString (pkgs.stdenv.buildPlatform.canExecute pkgs.stdenv.hostPlatform) ''
            installShellCompletion --cmd holdfast \
              --bash <($out/bin/holdfast completions bash) \
              --fish <($out/bin/holdfast completions fish) \
              --zsh <($out/bin/holdfast completions zsh)
            mkdir pages
            $out/bin/holdfast man --dir pages
            installManPage pages/*.1
            ln -s holdfast $out/bin/kubectl-holdfast
          '';
          meta = {
            description = "Kubernetes-compatible API server in one binary";
            homepage = "https://github.com/holdfast-project/holdfast";
            license = pkgs.lib.licenses.asl20;
            mainProgram = "holdfast";
          };
        };
      });

      devShells = forEach (pkgs: {
        default = pkgs.mkShell {
          packages = with pkgs; [ cargo clippy rustfmt cmake perl kubectl etcd go nodejs python3 mdbook ];
        };
      });
    };
}
